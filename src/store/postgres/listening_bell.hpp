// A bell that rings across processes: LISTEN, on a connection of its own. Whoever enqueues notifies
// only while somebody sleeps, so a busy store is silent.
#pragma once

#include "store/contract/bell.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/frontier.hpp"
#include "store/postgres/offers.hpp"
#include "store/postgres/reconnection.hpp"
#include <posthorn/environment.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace posthorn::postgres {

/// A sleeper arms in this order: it listens; it takes the bell, unless another sleeper has it; it
/// draws a transaction's id, and notes which older ones run. A transaction that enqueues draws its
/// id first and then looks whether anybody holds the bell. So it rings; or it has committed, and
/// the sleeper's look finds its message; or it is noted, and the sleeper looks again when it ends.
class listening_bell final : public contract::bell {
public:
    /// Lifetime: `front` outlives it.
    listening_bell(location where, environment world, frontier& front);
    listening_bell(const listening_bell&) = delete;
    listening_bell& operator=(const listening_bell&) = delete;
    ~listening_bell() override;

    void arm() override;
    void disarm() noexcept override;
    bool wait(duration at_most) noexcept override;
    void wake() noexcept override;
    void ring_others() noexcept override;
    void offer(const contract::place_offer& terms, std::size_t places) noexcept override;
    void withdraw() noexcept override;
    std::vector<contract::handed_batch> handed_over(
        const std::function<std::vector<fence>()>& held) noexcept override;

private:
    using clock = std::chrono::steady_clock; // these waits are about threads, not about messages

    enum class event { time, input, woken };

    struct notes {
        bool rung = false;
        bool bell_is_free = false; ///< whoever held it has got up
    };

    bool connect();
    void subscribe();
    bool look_after_itself();
    bool has_rung();
    notes read_notes();
    [[nodiscard]] clock::time_point next_step() const;
    [[nodiscard]] event rest(clock::time_point until) const noexcept;
    bool take_bell();
    bool some_have_ended();
    [[nodiscard]] std::vector<std::int64_t> running();
    void attempt(const std::function<void()>& work) noexcept;
    void lose(const char* why) noexcept;
    void say(log_level level, std::string_view line, const char* why = "") const noexcept;

    location where_;
    environment world_;
    std::unique_ptr<connection> db_;
    int waker_ = -1; ///< readable: somebody called `wake`

    bool wanted_ = false; ///< armed, as far as the caller knows
    bool armed_ = false;  ///< and the server knows it, too
    bool in_bedroom_ = false;
    bool has_bell_ = false;

    std::int64_t own_id_ = 0;           ///< drawn when we took the bell
    std::vector<std::int64_t> running_; ///< since before that
    clock::duration running_pause_{};
    clock::time_point running_check_; ///< when to look at them again
    clock::time_point routine_check_;

    offers offers_;

    bool lost_ = false; ///< and said so
    reconnection connecting_;
};

} // namespace posthorn::postgres
