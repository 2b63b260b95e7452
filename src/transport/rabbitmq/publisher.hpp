// What the transport's thread does with its connection: it fills the window from the batches that
// wait, and tells each message what became of it.
#pragma once

#include "transport/rabbitmq/content.hpp"
#include "transport/rabbitmq/link.hpp"
#include "transport/rabbitmq/window.hpp"
#include <posthorn/rabbitmq.hpp>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace posthorn::rabbitmq {

inline constexpr amqp_channel_t messages_channel = 1;
inline constexpr amqp_channel_t questions_channel = 2;
inline constexpr std::size_t short_string_bytes_max = 255;

/// An exchange that is missing may be made at any time.
inline constexpr duration missing_is_news_for = std::chrono::seconds{1};

/// Throws: `error` with `invalid_argument` for what no broker would make.
void check_declaration(const rabbitmq_declaration& what, const std::string& exchange);

class publisher final : public transport {
public:
    publisher(rabbitmq_options options, environment around);
    ~publisher() override;

    using transport::close;
    using transport::publish;
    [[nodiscard]] std::vector<publish_answer> publish(std::span<const transport_message> what,
                                                      const time_limit& how_long) override;
    [[nodiscard]] bool wait_until_ready(const time_limit& how_long) override;
    void close(const time_limit& how_long) override;
    [[nodiscard]] transport_capabilities capabilities() const override;
    [[nodiscard]] std::string name() const override;

private:
    /// What is known of an exchange.
    struct exchange_state {
        std::string missing; // what the broker said; empty: it is there
        monotonic_time since;
    };
    enum class sending { over, ask }; // over: it is on its way, or refused

    // On the thread of the link, with the lock.
    void begin(wire& on);
    void look(wire& on);
    [[nodiscard]] bool fill(wire& on);
    [[nodiscard]] bool renew_channel(wire& on);
    [[nodiscard]] bool leave_crowd(wire& on);
    [[nodiscard]] bool is_crowded() const;
    void replace_channel(wire& on);
    [[nodiscard]] bool fill_isolated(wire& on);
    [[nodiscard]] sending send(wire& on, batch& from, std::size_t which);
    [[nodiscard]] bool is_known(wire& on, std::string_view exchange);
    void ask_for(wire& on, std::string_view exchange);
    void declare(wire& on);
    void declare_queue(wire& on);
    void bind_queue(wire& on);
    void end_declaring(wire& on, std::string problem);
    void take(wire& on, const amqp_frame_t& frame);
    void take_connection(wire& on, const amqp_method_t& method);
    void take_messages(wire& on, const amqp_method_t& method);
    void take_questions(wire& on, const amqp_method_t& method);
    void take_returned();
    void channel_closed(wire& on, const amqp_channel_close_t& said);
    void open_channel(wire& on);
    void lose(std::uint64_t flushed);

    void serve(wire& on);
    [[nodiscard]] std::optional<duration> patience() const;
    void lost(const std::string& why);

    [[nodiscard]] route route_of(const transport_message& what) const;
    [[nodiscard]] publish_answer reason_not_sent() const;
    [[nodiscard]] std::string why_not_declared(std::string_view exchange) const;
    [[nodiscard]] monotonic_time now() const { return link_.around().clock->monotonic(); }

    /// Waits with the lock until it is so; false: the time is over.
    template <typename Condition>
    bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable_any& told,
              const time_limit& how_long, Condition condition);

    const rabbitmq_options options_;
    std::mutex mutex_; // guards what follows
    std::condition_variable_any changed_;
    std::list<batch*> batches_; // of those who are in `publish`
    window window_;
    std::deque<std::pair<batch*, std::size_t>> isolated_; // sent before, to be sent alone
    bool alone_ = false;                                  // such a one is on its way
    std::map<std::string, exchange_state, std::less<>> exchanges_;
    std::string asked_for_;      // the exchange that the broker is being asked for
    bool declaring_ = false;     // what the options declare is being made
    bool declare_again_ = false; // it may be gone
    monotonic_time declared_at_{};
    std::string not_declared_;           // why it is not as the options say; empty: it is
    bool ready_ = false;                 // connected, with a channel
    bool renewing_ = false;              // we have closed the channel, for another
    std::optional<std::string> blocked_; // the broker's reason to make us wait
    std::string failure_ = "not connected yet";
    std::uint64_t looks_wanted_ = 0;
    std::uint64_t looks_done_ = 0;
    bool closed_ = false;

    // Of the thread of the link.
    outgoing_content content_;
    incoming_content returned_;
    std::string returned_why_;
    std::optional<monotonic_time> hold_until_; // nothing is sent, in favour of a new channel
    std::size_t returned_route_ = 0;
    bool returned_by_declared_ = false; // by the exchange that we declare

    link link_; // last: its thread uses all of the above
};

} // namespace posthorn::rabbitmq
