// What stands behind a lease: what its holder believes, and two threads. One renews it, and may
// have to wait for the database; the other only watches the time, so that nothing keeps it from
// telling the holder in time.
#pragma once

#include "store/contract/lease_desk.hpp"
#include <posthorn/leases.hpp>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace posthorn {

/// Under a clock that a test moves nobody knows when time moves: look often.
[[nodiscard]] duration real_wait(const environment& world, duration wanted);

struct lease::state {
public:
    struct grant {
        std::string name;
        std::string token;
        posthorn::fence fence;
        monotonic_time asked_at; ///< before the request was made
    };

    state(store where, grant what, lease_options how);
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state();

    [[nodiscard]] const grant& what() const noexcept { return what_; }
    [[nodiscard]] std::stop_token stop_token() const noexcept { return lost_.get_token(); }
    [[nodiscard]] duration left();
    [[nodiscard]] std::optional<duration> renews_in();
    bool renew();
    bool release();

private:
    enum class condition { held, lost, released };
    using lock = std::unique_lock<std::mutex>;

    [[nodiscard]] monotonic_time now() const { return where_.environment().clock->since_boot(); }
    [[nodiscard]] contract::held_lease held() const
    {
        return {.name = what_.name, .token = what_.token, .fence = what_.fence};
    }

    /// Under the lock. False: it is not held any more. Notices that its time is over.
    bool is_held();
    void lose();
    void believe_from(monotonic_time asked_at);
    void keep_renewing(const std::stop_token& stop);
    void watch_the_time(const std::stop_token& stop);
    void try_to_renew(lock& guard);
    void warn(std::string_view what, std::string_view why) const;

    store where_;
    const grant what_;
    const lease_options how_;

    std::mutex mutex_; // guards what follows
    std::condition_variable_any changed_;
    condition condition_ = condition::held;
    monotonic_time believed_until_;
    monotonic_time renew_at_;

    std::stop_source lost_;
    std::jthread renewer_; // last: they use everything above
    std::jthread watch_;
};

} // namespace posthorn
