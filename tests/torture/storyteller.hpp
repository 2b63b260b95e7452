// How a worker tells its story: each start before its handler runs, each settlement with its
// answer.
#pragma once

#include "checker/history.hpp"
#include <posthorn/worker.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace posthorn::torture {

/// Threads: safe to use from any. Outlives the worker.
class storyteller {
public:
    storyteller(checker::history_writer& notes, duration lease) : notes_(notes), lease_(lease) {}

    /// For `worker_options::on`; `tells_starts` is false for a worker that does so itself.
    [[nodiscard]] lifecycle hooks(bool tells_starts = true)
    {
        return {.starting =
                    [this, tells_starts](const delivery_view& which) {
                        if (tells_starts)
                            tell_start(which.message());
                    },
                .ended = [this](const delivery_view& which, const outcome& said,
                                duration) { note_end(which.message(), said); },
                .settled = [this](const delivery_view& which,
                                  settled_as answer) { tell_settled(which.message(), answer); }};
    }

    /// For `worker_options::around`: an acknowledgement in the handler's own transaction was not
    /// asked for before the handler was through.
    [[nodiscard]] middleware around()
    {
        return [this](const delivery_view& which, const std::function<outcome()>& next) {
            auto said = next();
            const std::lock_guard lock(mutex_);
            open_[key_of(which.message())].asked_at = notes_.now();
            return said;
        };
    }

    /// The store started the message when it was claimed: at some time after it was due.
    void tell_start(const delivery& which)
    {
        {
            const std::lock_guard lock(mutex_);
            open_[key_of(which)].begun = notes_.now();
        }
        notes_.record(checker::start_event{which.receipt.id, which.receipt.fence, which.attempt},
                      std::min(which.due_at, notes_.now()));
    }

private:
    using key = std::pair<message_id, fence>;
    struct told {
        std::optional<timestamp> begun = {};
        std::optional<timestamp> asked_at = {};
        std::optional<outcome::kind> said = {};
    };

    static key key_of(const delivery& which) { return {which.receipt.id, which.receipt.fence}; }

    void note_end(const delivery& which, const outcome& said)
    {
        const std::lock_guard lock(mutex_);
        auto& entry = open_[key_of(which)];
        entry.said = said.verdict;
        if (!entry.asked_at)
            entry.asked_at = notes_.now();
    }

    void tell_settled(const delivery& which, settled_as answer)
    {
        told entry;
        {
            const std::lock_guard lock(mutex_);
            if (auto found = open_.extract(key_of(which)))
                entry = found.mapped();
        }
        // By our own clock nobody else can have had a right to it before. The lease began with the
        // claim: after the message was due, and before its handler, which a busy machine keeps
        // waiting.
        const auto since = std::min(which.due_at, entry.begun.value_or(which.due_at));
        if (answer == settled_as::lost && entry.begun && notes_.now() - since >= lease_)
            notes_.record(checker::fault_event{.kind = checker::fault_kind::lease_expired,
                                               .id = which.receipt.id,
                                               .fence = which.receipt.fence},
                          since);
        // One that never reached its handler was given back at some time after its claim.
        if (!entry.asked_at)
            entry.asked_at = std::min(which.due_at, notes_.now());
        const auto unsaid =
            answer == settled_as::parked ? outcome::kind::park : outcome::kind::postpone;
        notes_.record(checker::settle_event{.id = which.receipt.id,
                                            .fence = which.receipt.fence,
                                            .outcome = entry.said.value_or(unsaid),
                                            .answer = answer},
                      entry.asked_at);
    }

    checker::history_writer& notes_;
    duration lease_;
    std::mutex mutex_;
    std::map<key, told> open_; ///< handled or being handled, and not settled
};

} // namespace posthorn::torture
