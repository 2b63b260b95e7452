// The loop of a worker: claim what there is room for, hand it to its handlers, rest when there is
// nothing. Written once for anything that can be claimed.
//
// A message is claimed only when a handler can take it at once, and starts with its claim. So a
// worker that dies costs an attempt to no message but those that were running.
#pragma once

#include "runtime/engine.hpp"
#include "runtime/group_turns.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::runtime {

class dispatcher {
public:
    /// `stop` is for visits; `run` has its own.
    explicit dispatcher(std::shared_ptr<engine> with, stop_request stop = {});
    ~dispatcher();

    run_report run(const stop_request& stop, const run_options& how);

    /// Since when the oldest message that `run` claimed had been due.
    [[nodiscard]] duration oldest() const noexcept { return oldest_; }

    enum class haul { none, some, full }; ///< how much a claim brought of what it asked for

    // ------------------------------- for whoever serves many stores, and waits and settles itself

    struct visit_order {
        std::size_t room = 0;    ///< claim at most so many
        bool others_run = false; ///< messages of other stores are in hand, or may come to be
        std::chrono::steady_clock::time_point suspects_wait_until{}; ///< others take too long
    };
    struct visited {
        haul brought = haul::none;
        std::size_t claimed = 0;
        std::size_t begun = 0;                   ///< of them: these run now
        duration oldest{};                       ///< since when the oldest of them had been due
        std::optional<std::string> failure = {}; ///< after the claim: there was no thread for some
        bool wants_quiet =
            false; ///< the next claim must be for one message, with nothing beside it
    };
    visited visit(const visit_order& order);

    /// Learns what a claim does not say, and whether parked messages can be taken now.
    struct sight {
        contract::outlook ahead;
        bool everything_paused = false;
        bool wants_parked = false;
        bool at_limit = false; ///< or could be, if as many as may were not running already
        std::optional<duration> next_turn = {}; ///< until messages of full groups are tried again
    };
    sight look_around();

    /// Turns through messages of full groups outlive this, when a store is closed between visits.
    void go_on(group_turns before) { turns_ = std::move(before); }
    [[nodiscard]] group_turns leave_turns() { return std::move(turns_); }

private:
    struct turn; ///< what one `run` keeps in mind

    void work(turn& now);
    haul claim_and_dispatch(turn& now, std::size_t limit);
    std::size_t room_now(turn& now);
    std::size_t room_for_one(turn& now);

    struct wanted_back {
        std::vector<std::string> topics;
        std::int64_t after = 0;
        bool in_turns = false; ///< one topic, see `group_turns`
    };
    wanted_back wanted_parked(std::size_t& limit) const;
    void note_taken_back(const wanted_back& wanted, const batch& claimed, bool all_known);
    std::size_t begin(turn& now, batch&& claimed, monotonic_time since);
    std::size_t dispatch(turn& now, std::vector<running_ptr> members);
    void hand_to_threads(const std::vector<running_ptr>& members);
    bool may_run(turn& now, const running_ptr& which, bool alone);
    bool is_suspect(const running_delivery& which) const;
    void rest(turn& now);
    bool sleep(turn& now, duration at_most);
    void offer_places(const turn& now);
    std::size_t take_what_was_handed(turn& now);
    [[nodiscard]] bool has_room_for(const turn& now, fence which) const;
    [[nodiscard]] bool one_at_a_time(const turn& now) const;
    contract::outlook look(turn& now);
    void endure(turn& now, const std::exception& why);
    void drain();
    void warn_once(const std::string& topic);

    std::shared_ptr<engine> with_;
    std::unique_ptr<contract::bell> bell_;
    std::vector<pause_record> pauses_;
    std::set<std::string> parked_; ///< topics of which messages are known to be parked
    group_turns turns_;            ///< those of them whose groups are full
    std::set<std::string> warned_;
    contract::place_offer offer_; ///< while it sleeps

    const stop_request stop_;
    const run_options always_ = {};
    std::unique_ptr<turn> visiting_; ///< what visits keep in mind
    duration oldest_{};
};

} // namespace posthorn::runtime
