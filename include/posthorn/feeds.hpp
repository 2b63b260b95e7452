// Feeds: where messages come from that others send, such as a queue of a broker, and the way they
// take into the inbox. Stored first, then acknowledged: what comes again has one effect.
//
//     auto orders = ph::open_rabbitmq_feed({.url = "amqp://…", .queue = "orders"});
//     ph::feed_inbox(store, *orders, {.source = "shop"}, stop.drain);
#pragma once

#include <posthorn/message.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace posthorn {

/// A message as another system hands it over.
struct fed_message {
    std::uint64_t ticket = 0;       ///< by which the feed knows it until it is answered
    std::string id;                 ///< its sender's: the same each time it comes
    std::string topic;              ///< what it says, else what the feed was told
    std::string key = {};           ///< messages of one key keep their order; empty: no order
    posthorn::headers headers = {}; ///< without those that only the journey needed
    std::string payload = {};
};

/// A way in. It connects by itself, and again after each interruption; what was handed over before
/// and not answered comes again.
/// Threads: `receive`, `acknowledge`, `give_back` and `refuse` from one at a time; `close` and
/// `name` from any.
class feed {
public:
    feed() = default;
    feed(const feed&) = delete;
    feed& operator=(const feed&) = delete;
    virtual ~feed() = default;

    /// Waits until there is something, then takes what is there, up to `at_most`. Nothing: the time
    /// is over, or the feed is closed. Nothing is thrown for a side that is away.
    [[nodiscard]] virtual std::vector<fed_message> receive(std::size_t at_most,
                                                           const time_limit& how_long) = 0;

    /// They are ours now. A ticket from before an interruption is ignored: its message comes again.
    virtual void acknowledge(std::span<const std::uint64_t> tickets) = 0;

    /// They could not be stored now: they come again, after about `pause`.
    virtual void give_back(std::span<const std::uint64_t> tickets, duration pause) = 0;

    /// They can never be stored: they go where the other side keeps such messages, and are not
    /// lost, or come again if there is no such place.
    virtual void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) = 0;

    /// Ends every wait. What is not answered comes again, to whoever opens the feed next.
    virtual void close() = 0;

    /// For people and logs: what kind, and where from; never a secret.
    [[nodiscard]] virtual std::string name() const = 0;
};

/// What became of messages that were fed; see `inbox_answer`.
struct feed_report {
    std::size_t stored = 0;
    std::size_t repeated = 0; ///< known already: acknowledged without an effect
    std::size_t refused = 0;  ///< no store could take them
    std::size_t failures = 0; ///< of the store, which was tried again

    feed_report& operator+=(const feed_report& more) noexcept
    {
        stored += more.stored;
        repeated += more.repeated;
        refused += more.refused;
        failures += more.failures;
        return *this;
    }
};

struct feed_options {
    std::string source;      ///< the inbox's name for whoever sends; with the id it is unique
    std::size_t batch = 100; ///< so many share a transaction

    /// For messages that do not say their topic, and for all of them if `topic_wins`.
    std::string topic = {};
    bool topic_wins = false;

    /// So long a batch is kept in hand and tried again while the store is away; then it is given
    /// back, for others to take, and what is newer may overtake it. Best less than the time after
    /// which the other side hands messages to somebody else.
    duration keep_for = std::chrono::seconds{15};

    /// Told after each batch, and after each failure, on the thread that feeds. Must not throw.
    std::function<void(const feed_report&)> progress = {};
};

/// Moves what a feed brings into the inbox until it is told to stop, or the feed is closed. A store
/// that is away is waited for: nothing is acknowledged that is not stored.
/// Throws: `error` with `invalid_argument` for options that make no sense.
feed_report feed_inbox(store where, feed& from, const feed_options& how, std::stop_token stop);

} // namespace posthorn
