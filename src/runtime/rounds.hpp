// A worker's rounds: which of its many stores is visited next, and by which thread.
//
// The calling thread decides; a few others carry visits out. A store is visited when something may
// be due in it, when a handler has answered, when a lease wants to be renewed, and otherwise hardly
// ever. What a store costs the others is bounded: one thread while it does not answer, nothing
// while its breaker is open.
#pragma once

#include "runtime/mailbox.hpp"
#include "runtime/station.hpp"
#include "store/contract/premises.hpp"
#include <posthorn/serving.hpp>
#include <posthorn/stores.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace posthorn::runtime {

class rounds {
public:
    struct parts {
        store_provider provider;
        serving_options serving;
        worker_parts worker;
        environment world;
        /// Makes a store claimable; what that means is for the caller to know.
        std::function<std::shared_ptr<claimable>(const store&)> claim_from;
    };

    explicit rounds(parts with);
    rounds(const rounds&) = delete;
    rounds& operator=(const rounds&) = delete;
    ~rounds();

    run_report run(const run_options& how);

    /// How long the last settlements may take. Stores that hang are not waited for.
    static constexpr std::chrono::seconds closing_patience{3};

    [[nodiscard]] run_report so_far() const;
    [[nodiscard]] std::size_t running() const;
    [[nodiscard]] std::size_t threads() const;
    [[nodiscard]] std::vector<store_status> stores() const;

private:
    using clock = std::chrono::steady_clock; // about threads, not about messages
    using time = clock::time_point;
    using lock = std::unique_lock<std::mutex>;

    struct entry {
        std::uint64_t position = 0;
        named_store what;
        std::string place; ///< what it shares with others; empty: nothing
        std::shared_ptr<station> at;
        std::unique_ptr<contract::subscription> line; ///< null: nobody rings

        bool rung = true;        ///< something may be due
        bool rung_again = false; ///< while it was visited
        bool chores = false;
        bool in_chore_line = false;
        bool in_hand = false;
        bool leaving = false; ///< not listed any more
        bool seen_empty = false;
        bool looked_at = false;
        bool slow = false;        ///< its last visit took too long
        std::size_t reserved = 0; ///< places, while it is visited and not for long
        std::size_t promised = 0; ///< of the run's limit, while it is visited
        std::size_t open_max = 0; ///< stores of its kind that stay open; 0: it costs nothing
        int busy = 0;             ///< visits in a row that brought something
        std::int64_t credit = 0;  ///< messages that it may still give in its turn
        int failures = 0;         ///< in a row
        std::string last_error;
        time visit_began{};
        time look_at = time::max();
        time chores_at = time::max();
        time closed_until{}; ///< the breaker is open
        time ready_since{};
        duration idle_pause{};
        duration lag{};
        time timer = time::max(); ///< where it stands among the timers
    };
    using entry_ptr = std::shared_ptr<entry>;

    struct ending {
        bool no_claims = false; ///< draining
        bool closing = false;
    };

    void list_first(lock& guard);
    void list_in_background();
    void refresh_in_background();
    void refresh(const std::vector<named_store>& listed);
    void add_store(const named_store& which);
    void leave(const entry_ptr& which);
    void forget_gone();

    void wait(lock& guard, time until);
    void read(const mailbox::rung& what);
    void read(const mailbox::has_chores& what);
    void read(const mailbox::visited& what);
    void read(const mailbox::listed& what);
    [[nodiscard]] entry_ptr at(std::uint64_t position) const;

    void plan(const entry_ptr& which);
    void fire_timers(time now);
    [[nodiscard]] time next_time(time now) const;
    bool step(lock& guard, duration at_most);
    bool send_visits();
    entry_ptr next_with_chores();
    entry_ptr next_to_claim();
    entry_ptr next_in_quiet();
    [[nodiscard]] entry_ptr last_in_hand(time now) const;
    entry_ptr choose_of(std::vector<store_view> views, std::vector<entry_ptr> behind);
    [[nodiscard]] duration patience_for_places() const;
    [[nodiscard]] std::size_t room() const;
    [[nodiscard]] std::size_t room_for(const entry& which) const;
    [[nodiscard]] std::size_t free_places() const;
    [[nodiscard]] std::size_t left_of_limit() const;
    void give_back_places(entry& which);
    void give_back(entry& which);
    [[nodiscard]] bool may_send(time now);
    [[nodiscard]] bool hangs(const entry& which, time now) const;
    [[nodiscard]] bool is_out_of_reach(const entry& which) const;
    [[nodiscard]] bool quiet_enough() const;
    [[nodiscard]] bool keeps_open(const entry& which) const;
    [[nodiscard]] bool stays_with(const entry& which) const;
    void set_busy(entry& which, int visits);
    void send(const entry_ptr& which, const station::errand& what);
    void note_failure(entry& which, const std::string& why);
    void note_success(entry& which, duration took);
    void note_haul(const entry_ptr& which, const station::errand& what,
                   const station::answer& said);
    [[nodiscard]] duration look_again_in(entry& which, const station::answer& said) const;

    void work(lock& guard);
    void ask_to_stop(lock& guard, held_messages::whom which);
    void drain(lock& guard);
    void close(lock& guard);
    [[nodiscard]] bool is_over() const;
    [[nodiscard]] bool nothing_in_hand() const;
    [[nodiscard]] bool stopping() const;
    void say(log_level level, const std::string& line) const;

    parts with_;
    std::shared_ptr<const worker_parts> shared_;
    const run_options* how_ = nullptr;
    ending ending_;

    // Shared with whoever tells us something.
    std::shared_ptr<mailbox> mail_ = std::make_shared<mailbox>();

    mutable std::mutex mutex_; ///< for those who ask how it goes; the rounds let go of it to wait
    std::map<std::uint64_t, entry_ptr> entries_; ///< by position
    std::map<std::string, std::uint64_t, std::less<>> by_name_;
    std::uint64_t next_position_ = 0;
    std::map<std::uint64_t, entry_ptr> ready_; ///< something may be due
    std::deque<entry_ptr> chore_line_;
    std::deque<entry_ptr> unfinished_; ///< open, and their turn is not over
    std::set<std::pair<time, std::uint64_t>> timers_;
    std::set<entry_ptr> in_flight_;
    std::map<std::string, std::size_t> hanging_at_; ///< visits, by the place that they share
    std::int64_t busy_places_ = 0;    ///< below zero for as long as a visit has not told what began
    std::int64_t claimed_ = 0;        ///< of the run's limit
    std::size_t busy_stores_ = 0;     ///< of those for which being open costs something
    duration visit_takes_{};          ///< of late, on average
    time short_since_{};              ///< since when there are places, but few
    std::optional<std::string> last_; ///< the store that the strategy chose last
    std::size_t last_count_ = 0;      ///< what it gave
    entry_ptr quiet_for_;
    time quiet_since_{};
    clock::duration quiet_patience_{};
    time loud_until_{}; ///< so long suspects wait, and all others go on
    time refresh_at_ = time::max();
    bool listed_ = false; ///< at least once
    bool refreshing_ = false;
    std::exception_ptr first_failure_;            ///< why there was never a list
    std::exception_ptr fatal_;                    ///< what no store can be blamed for: it ends
    std::map<std::string, std::string> left_out_; ///< stores, and why
    std::size_t leaving_ = 0;
    run_report past_;                     ///< of stores that are gone
    std::shared_ptr<thread_pool> visits_; ///< last: its threads use everything above
};

} // namespace posthorn::runtime
