// A bell for stores that cannot ring across processes: within this one a ring wakes at once,
// otherwise it looks, quickly at first and ever more seldom.
#pragma once

#include "store/contract/bell.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace posthorn::contract {

/// Rung by whoever commits an enqueue in this process. Threads: safe.
class doorbell {
public:
    void ring() noexcept;
    [[nodiscard]] std::uint64_t rings() const noexcept;

    /// Sleeps until the count differs from `seen`. False: the time was up first.
    bool wait_past(std::uint64_t seen, duration at_most) noexcept;

private:
    mutable std::mutex mutex_;
    std::condition_variable rung_;
    std::uint64_t rings_ = 0;
};

class polling_bell final : public bell {
public:
    struct pace {
        duration first = std::chrono::milliseconds{2};
        duration cap = std::chrono::milliseconds{500};
    };

    /// `changed` says whether another process may have enqueued. Without it a wait is over, as if
    /// its time were up, as often as it is worth a look.
    polling_bell(std::shared_ptr<doorbell> here, pace how, std::function<bool()> changed = {});

    void arm() override;
    void disarm() noexcept override;
    bool wait(duration at_most) noexcept override;
    void wake() noexcept override;
    void ring_others() noexcept override;

private:
    [[nodiscard]] bool changed_elsewhere() noexcept;
    [[nodiscard]] bool was_woken() noexcept { return woken_.exchange(false); }

    std::shared_ptr<doorbell> here_;
    pace how_;
    std::function<bool()> changed_;
    duration next_;
    std::uint64_t seen_ = 0;
    std::atomic<bool> woken_ = false; // apart from the rings: arming forgets those, but not a wake
};

/// For bells whose every look is a statement: who has been idle for long asks less than once a
/// second.
inline constexpr polling_bell::pace pace_of_statements{.cap = std::chrono::milliseconds{1500}};

} // namespace posthorn::contract
