// The thread that keeps a connection: it connects, lets somebody use the connection until it
// breaks, and connects again, to the next broker in turn, with pauses that grow.
#pragma once

#include "transport/rabbitmq/wire.hpp"
#include <posthorn/environment.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::rabbitmq {

class link {
public:
    /// Called on the thread of the link.
    struct user {
        /// Uses the connection until it breaks (throws `broken`) or `is_over`.
        std::function<void(wire&)> serve;

        /// There is no connection, and why; called after each failure.
        std::function<void(const std::string& why)> lost;
    };

    link(std::vector<address> where, rabbitmq_connection how, environment around);
    link(const link&) = delete;
    link& operator=(const link&) = delete;
    ~link() { stop(); }

    void start(user who);

    /// Ends the thread after it has said goodbye. Repeating it is harmless; not on its own thread.
    void stop();

    /// The thread looks around. Threads: from any.
    void ring() noexcept { alarm_.ring(); }

    [[nodiscard]] bool is_over() const noexcept { return over_; }
    [[nodiscard]] std::string places() const { return places_of(where_); }
    [[nodiscard]] const environment& around() const noexcept { return around_; }

    /// The connection can be used. On the thread of the link.
    void works();

    /// The broker has done something for us: the next failure is the first of its kind. On the
    /// thread of the link.
    void all_is_well() noexcept { failures_ = 0; }

private:
    void run(const user& who);
    void rest();
    [[nodiscard]] const address& here() const { return where_[turn_ % where_.size()]; }

    std::vector<address> where_;
    rabbitmq_connection how_;
    environment around_;
    alarm alarm_;
    std::atomic<bool> over_ = false;

    // Of the thread.
    std::size_t turn_ = 0;
    std::size_t failures_ = 0; // since all was well
    bool away_ = false;        // and somebody was told

    std::mutex ending_; // guards the thread's end
    std::thread thread_;
};

/// Throws: `error` with `invalid_argument` that says what is wrong.
void check_connection(const rabbitmq_connection& how);

} // namespace posthorn::rabbitmq
