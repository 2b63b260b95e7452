// What the feed's thread does with its connection: it takes what the broker hands over, up to the
// prefetch, and passes the answers on.
#pragma once

#include "transport/rabbitmq/content.hpp"
#include "transport/rabbitmq/link.hpp"
#include <posthorn/rabbitmq.hpp>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace posthorn::rabbitmq {

/// The deliveries of one connection that have no answer yet, in the order of their numbers.
class unanswered {
public:
    void add(std::uint64_t number) { all_.emplace(number, false); }
    [[nodiscard]] bool contains(std::uint64_t number) const { return all_.contains(number); }
    void answer(std::uint64_t number) { all_.erase(number); }
    void clear() { all_.clear(); }

    /// How to say that these are acknowledged: `up_to` stands for it and all before; 0: none.
    struct acknowledgement {
        std::uint64_t up_to = 0;
        std::vector<std::uint64_t> single;
    };
    [[nodiscard]] acknowledgement acknowledge(const std::vector<std::uint64_t>& numbers);

private:
    std::map<std::uint64_t, bool> all_; // whether it is being acknowledged
};

class queue_feed final : public feed {
public:
    queue_feed(rabbitmq_feed_options options, environment around);
    ~queue_feed() override;

    [[nodiscard]] std::vector<fed_message> receive(std::size_t at_most,
                                                   const time_limit& how_long) override;
    void acknowledge(std::span<const std::uint64_t> tickets) override;
    void give_back(std::span<const std::uint64_t> tickets, duration pause) override;
    void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) override;
    void close() override;
    [[nodiscard]] std::string name() const override;

private:
    enum class fate { requeue, dead_letter };
    struct rejection {
        std::uint64_t number;
        fate what;
    };

    // On the thread of the link, with the lock.
    void begin(wire& on);
    void look(wire& on);
    void answer(wire& on);
    void take(wire& on, const amqp_frame_t& frame);
    void take_method(wire& on, const amqp_method_t& method);
    void take_whole();
    void reject_due(wire& on);

    void serve(wire& on);
    void lose();
    void refuse_number(std::uint64_t number, const std::string& reason);

    [[nodiscard]] std::vector<std::uint64_t> numbers_of(
        std::span<const std::uint64_t> tickets) const;
    [[nodiscard]] monotonic_time now() const { return link_.around().clock->monotonic(); }

    const rabbitmq_feed_options options_;
    std::mutex mutex_; // guards what follows
    std::condition_variable_any changed_;
    std::deque<fed_message> here_;  // not handed over yet
    std::uint64_t ticket_base_ = 0; // a ticket is this and the number on the connection
    std::uint64_t ticket_last_ = 0;
    unanswered open_;
    std::vector<std::uint64_t> acknowledged_;           // the broker is not told yet
    std::multimap<monotonic_time, rejection> rejected_; // and when to tell it
    bool closed_ = false;

    // Of the thread of the link.
    incoming_content delivery_;
    std::uint64_t delivery_number_ = 0;
    std::string delivery_routing_key_;

    link link_; // last: its thread uses all of the above
};

} // namespace posthorn::rabbitmq
