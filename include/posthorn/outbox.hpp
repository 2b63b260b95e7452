// The outbox from the worker's side: claim, start, settle, and take over from the dead.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/retry.hpp>
#include <posthorn/store.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// Runs inside a settling transaction, with the messages whose fate really changed.
struct settled_message {
    message_id id;
    settled_as answer = settled_as::done;
};
using settlement_hook = std::function<void(transaction&, std::span<const settled_message>)>;

struct outbox_options {
    retry_rules retries = {};

    /// For all topics, and for those that need another; `*` as in `retry_rules`.
    dead_key on_dead = dead_key::blocks;
    std::map<std::string, dead_key, std::less<>> on_dead_by_topic = {};

    /// What a topic's handler says, or null. It comes before the rules above. A worker sets this to
    /// ask its handlers.
    std::function<const failure_rules*(std::string_view topic)> of_handler = {};

    /// False forgets a message the moment it is done, instead of keeping it for `retention`.
    bool keep_done = true;

    std::vector<settlement_hook> hooks = {};

    /// Whether the log is told of each message that a settlement ends as dead.
    bool log_deaths = true;
};

struct claim_options {
    duration lease = std::chrono::seconds{30};
    std::size_t limit = 100;

    /// How many of the batch start with the claim; the rest by `start`. All unless given.
    /// Only started messages lose an attempt when their worker dies.
    std::optional<std::size_t> start = {};

    /// Topics of which parked messages are taken too: as many as fit become ready again first.
    std::vector<std::string> unpark = {};

    /// Of those, only messages behind this position: who takes them in turns begins where the last
    /// turn ended.
    std::int64_t unpark_after = 0;
};

/// What a reaping took back from workers whose lease had run out.
struct reap_report {
    std::size_t batches = 0;
    std::size_t released = 0; ///< never started, unharmed
    std::size_t retrying = 0; ///< started: one attempt gone
    std::size_t dead = 0;     ///< started once too often
};

/// The claiming side of one store. Every call is one transaction, or part of the one it is given.
/// Threads: safe to use from any.
class outbox {
public:
    explicit outbox(store where, outbox_options options = {});

    /// Claims up to `limit` messages that are due, most important first; none is a valid answer.
    /// Throws: `error` with `invalid_argument` for an empty owner, or a lease or limit of zero.
    [[nodiscard]] batch claim(const owner& who, const claim_options& how = {});

    /// Records that handlers of these messages now start. The answers are in the same order.
    [[nodiscard]] std::vector<start_answer> start(const owner& who, std::span<const receipt> what);

    settle_result acknowledge(const owner& who, std::span<const receipt> what);
    settle_result acknowledge(transaction& tx, const owner& who, std::span<const receipt> what);

    /// Gives messages back. Started ones wait for `delay` (else as the retry policy says) and have
    /// lost an attempt, and die if it was their last; others are unharmed.
    settle_result abandon(const owner& who, std::span<const receipt> what,
                          std::optional<duration> delay = {}, std::string_view error = {});

    /// Ends messages as dead letters.
    settle_result fail(const owner& who, std::span<const receipt> what, std::string_view reason);

    /// Any mix of outcomes, in one transaction.
    settle_result settle(const owner& who, std::span<const settlement> what);
    settle_result settle(transaction& tx, const owner& who, std::span<const settlement> what);

    /// Extends the lease of a batch, counted from now. False: it is not this owner's any more.
    [[nodiscard]] bool renew(const owner& who, fence which, duration lease);

    /// Takes back up to `limit` batches whose lease has run out.
    reap_report reap_expired(std::size_t limit = 100);

    /// Ends up to `limit` messages that nobody may start any more. Claiming does so too.
    std::size_t expire_due(std::size_t limit = 1'000);

    [[nodiscard]] const outbox_options& options() const noexcept { return options_; }

private:
    settle_result settle_all(const owner& who, std::span<const receipt> what, const outcome& how);
    settle_result settle_as_done(const owner& who, std::span<const settlement> what);
    reap_report reap(transaction& tx, std::size_t limit);
    bool set_unreadable_aside(const owner& who, batch& claimed);

    store store_;
    outbox_options options_;
};

} // namespace posthorn
