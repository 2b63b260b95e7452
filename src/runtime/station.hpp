// One of many stores in the hands of a worker. Between visits it is a name and a few counts; while
// it is visited, or has messages in hand, it is an engine like that of a worker with one store.
//
// Everything that is said to the store is said in visits, and there is one visit at a time. So a
// store that does not answer holds up the thread that visits it, and nobody else.
#pragma once

#include "runtime/dispatcher.hpp"
#include "runtime/engine.hpp"
#include "store/contract/bell.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace posthorn::runtime {

/// What all stations of a worker have in common.
struct worker_parts {
    std::shared_ptr<const handler_table> table;
    std::shared_ptr<const worker_options> options;
    owner who;
    shared_means means;
    stop_request stop;
};

/// Whom a station tells that it should be visited. Threads: from any; must not wait.
struct station_calls {
    std::function<void()> ring;   ///< something may be due
    std::function<void()> chores; ///< something is to be settled
    std::function<void()> left;   ///< a handler has left its place
};

class station {
public:
    /// `open` may throw, and may take as long as the store does.
    using opener = std::function<std::shared_ptr<claimable>()>;

    station(std::string name, opener open, std::shared_ptr<const worker_parts> with,
            station_calls calls);
    station(const station&) = delete;
    station& operator=(const station&) = delete;
    ~station();

    struct errand {
        bool claim = false; ///< else it only settles and renews
        std::size_t room = 0;
        bool others_run = false;
        std::chrono::steady_clock::time_point suspects_wait_until{};
        bool closing = false;   ///< the worker ends: settle what there is
        bool keep_open = false; ///< if there is more to claim
    };

    struct answer {
        std::optional<std::string> failure = {};
        std::exception_ptr fatal = {}; ///< the worker has to end, see `settler::fail`
        std::size_t claimed = 0;
        std::size_t begun = 0;
        bool more = false;      ///< claim again at once
        bool empty = false;     ///< nothing was due, and nothing is in hand
        bool elsewhere = false; ///< something is due, but somebody else has it in hand
        bool wants_quiet = false;
        duration lag{};
        std::optional<duration> next = {};   ///< until something will be due by itself
        std::optional<duration> chores = {}; ///< until something must be settled or renewed
        bool has_pauses = false;
        bool for_others = false; ///< something was put aside that another worker may want
    };

    /// Threads: one at a time.
    [[nodiscard]] answer visit(const errand& what) noexcept;

    // --------------------------------------------------------------------- from any thread

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::size_t running() const;
    [[nodiscard]] bool has_messages() const;
    [[nodiscard]] bool suspect_runs() const;
    [[nodiscard]] std::exception_ptr failure() const; ///< the worker has to end
    [[nodiscard]] run_report so_far() const;
    void ask_to_stop(held_messages::whom which);
    void close(); ///< the next visit is the last

private:
    class caller;

    void open();
    void let_go();
    answer claim(const errand& what);
    [[nodiscard]] std::shared_ptr<engine> current() const;

    const std::string name_;
    const opener open_;
    const std::shared_ptr<const worker_parts> with_;
    const station_calls calls_;
    const std::unique_ptr<caller> bell_;

    mutable std::mutex mutex_;
    std::shared_ptr<engine> engine_; ///< shared with handlers; null: closed
    std::unique_ptr<dispatcher> desk_;
    group_turns turns_;  ///< of the desk, while there is none
    bool eager_ = false; ///< the last claim brought all it asked for
    std::chrono::steady_clock::time_point looked_at_{};
    run_report past_; ///< of engines that are gone
};

} // namespace posthorn::runtime
