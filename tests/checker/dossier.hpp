// Everything known about each message, put together from history and tables, and the questions
// that several rules ask about it.
#pragma once

#include "checker/events.hpp"
#include "checker/final_state.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::checker {

/// Earlier and later than everything in a history, with room to subtract.
inline constexpr timestamp long_ago{};
inline constexpr timestamp never{duration{INT64_MAX / 4}};

/// What the run was allowed to do.
struct bounds {
    int attempts_max = 10; ///< zero: retries never end
    duration settle_within = std::chrono::seconds{60};
    duration clock_tolerance = duration::zero(); ///< how far the clocks of the run may differ
    bool done_forgotten = false;                 ///< the store may forget what is done
    std::set<std::string> may_wait = {};         ///< topics that nobody handles
};

/// One message: who enqueued it, what was done to it, and what the tables say.
struct message_story {
    message_id id;
    std::vector<noted<enqueue_event>> enqueues;
    std::vector<noted<start_event>> starts;       ///< by fence
    std::vector<noted<settle_event>> settlements; ///< by time
    std::vector<noted<cancel_event>> cancels;
    std::vector<noted<redrive_event>> redrives;
    std::vector<noted<purge_event>> purges;
    std::vector<message_record> rows; ///< one, if all is well

    /// The only row, or none.
    [[nodiscard]] const message_record* row() const;
};

/// One message from outside: who sent it, who stored it, and what became of it.
struct arrival_story {
    inbound from;
    std::vector<noted<send_event>> sendings;
    std::vector<noted<feed_event>> deliveries; ///< by time: the first ones may have stored it
    std::vector<message_id> messages;          ///< of the tables, by position: one, if all is well
    std::size_t effects = 0;                   ///< that were found
};

struct dossier {
    std::map<message_id, message_story> stories;
    std::map<std::pair<std::string, std::string>, arrival_story> arrivals; ///< by source and id
    bool knows_effects = false;
    std::map<std::string, noted<transaction_event>> transactions;
    std::vector<noted<fault_event>> faults;
    std::optional<timestamp> stopped_at;
    timestamp read_at;
    checker::bounds bounds; ///< with a tolerance that covers the jumps of clocks in the history
};

/// Throws: `error` with `invalid_argument` if the history contradicts itself.
[[nodiscard]] dossier compile(const history& told, const final_state& found, const bounds& allowed);

/// True only if no disagreement of clocks can explain the order.
[[nodiscard]] bool surely_before(const dossier& all, timestamp earlier, timestamp later);

enum class presence { must, may, must_not };

/// Whether the message has to be in the tables, going by the ends of its transactions.
[[nodiscard]] presence expected_presence(const dossier& all, const message_story& story);

/// The enqueueing that committed, or none.
[[nodiscard]] const noted<enqueue_event>* committed_enqueue(const dossier& all,
                                                            const message_story& story);

/// The enqueueing that committed, or the last one; none if nobody enqueued the message.
[[nodiscard]] const noted<enqueue_event>* likely_enqueue(const dossier& all,
                                                         const message_story& story);

/// Whether a fault injector killed the process or worker of that name.
[[nodiscard]] bool was_killed(const dossier& all, const std::string& name);

/// Whether the row may be missing: purged, or done in a store that forgets.
[[nodiscard]] bool may_be_gone(const dossier& all, const message_story& story);

/// Whether the settlement was answered, and with something else than `lost`.
[[nodiscard]] bool took_effect(const settle_event& what);

/// The state in which the settlement ended its message, if it did.
[[nodiscard]] std::optional<message_state> ended_as(const settle_event& what);

/// Whether a fault came between a start and its settlement, or the answer to that never came.
[[nodiscard]] bool was_interrupted(const dossier& all, const message_story& story,
                                   const noted<start_event>& start);

/// Whether the message may have been redriven between two times.
[[nodiscard]] bool maybe_redriven(const dossier& all, const message_story& story, timestamp after,
                                  timestamp before);

} // namespace posthorn::checker
