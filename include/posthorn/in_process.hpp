// The transport that goes nowhere: subscribers in this process. For tests, and for programs that
// are small enough to be one process.
#pragma once

#include <posthorn/transport.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace posthorn {

struct in_process_options {
    /// Whether a message that nobody subscribed to is refused; else it is accepted and gone.
    bool mandatory = true;

    std::size_t payload_bytes_max = std::size_t{1} << 20U;

    /// Subscribers may publish. So deep may one call of `publish` stand inside another.
    std::size_t depth_max = 64;
};

/// Calls its subscribers on the thread that publishes, one after the other in the order of their
/// subscribing, each in the correlation scope of the message. A message is accepted when all of
/// them have returned; it is rejected when one throws, and then comes to the others again when it
/// is published again.
class in_process_transport final : public transport {
public:
    using subscriber = std::function<void(const transport_message&)>;

    /// Ends with its destruction: afterwards the subscriber is not called any more, and calls from
    /// other threads have returned.
    class subscription {
    public:
        subscription() = default;
        subscription(subscription&&) noexcept;
        subscription& operator=(subscription&&) noexcept;
        ~subscription();

    private:
        friend class in_process_transport;
        struct state;
        explicit subscription(std::shared_ptr<state> of);

        std::shared_ptr<state> state_; // shared with the transport and with calls in progress
    };

    explicit in_process_transport(in_process_options options = {});
    ~in_process_transport() override;

    /// Subscribes to a topic, or with a closing `*` to all that start so.
    /// Throws: `error` with `invalid_argument` for a pattern that no topic can match.
    [[nodiscard]] subscription subscribe(std::string_view pattern, subscriber what);

    using transport::close;
    using transport::publish;
    [[nodiscard]] std::vector<publish_answer> publish(std::span<const transport_message> what,
                                                      const time_limit& how_long) override;
    [[nodiscard]] bool wait_until_ready(const time_limit& how_long) override;
    void close(const time_limit& how_long) override;
    [[nodiscard]] transport_capabilities capabilities() const override;
    [[nodiscard]] std::string name() const override { return "in-process"; }

private:
    struct state;
    std::shared_ptr<state> state_; // shared with subscriptions, which may outlive it
};

} // namespace posthorn
