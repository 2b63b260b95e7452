// How something long-running is told to end: gently, or now.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>

namespace posthorn {

/// `drain`: begin nothing new and let what runs end. `now`: do not wait for it either.
struct stop_request {
    std::stop_token drain = {};
    std::stop_token now = {};

    stop_request() = default;
    stop_request(std::stop_token gently, std::stop_token at_once = {}) // NOLINT: meant to convert
        : drain(std::move(gently)), now(std::move(at_once))
    {}

    /// Whether either of the two has been asked for.
    [[nodiscard]] bool requested() const noexcept
    {
        return drain.stop_requested() || now.stop_requested();
    }
};

/// SIGTERM and SIGINT as a stop request: the first drains, the second stops now.
/// Make it in `main` before any thread is started: it blocks both signals for the calling thread
/// and all that it starts, and gives them back when destroyed.
class stop_on_signals {
public:
    stop_on_signals();
    stop_on_signals(const stop_on_signals&) = delete;
    stop_on_signals& operator=(const stop_on_signals&) = delete;
    ~stop_on_signals();

    [[nodiscard]] stop_request request() const;
    operator stop_request() const { return request(); } // NOLINT: meant to convert

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace posthorn
