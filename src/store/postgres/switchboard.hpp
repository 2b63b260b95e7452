// One connection that listens for many schemas of a database. For each of them it does what
// listening_bell does for one: see there for why the order of its steps loses no ring.
#pragma once

#include "store/contract/premises.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/reconnection.hpp"
#include <posthorn/environment.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace posthorn::postgres {

/// Threads: safe to use from any.
class switchboard : public std::enable_shared_from_this<switchboard> {
public:
    switchboard(location where, environment world);
    switchboard(const switchboard&) = delete;
    switchboard& operator=(const switchboard&) = delete;
    ~switchboard();

    /// Calls `ring` when something may have been enqueued in this schema, until the subscription
    /// ends; and once after it has begun to listen.
    [[nodiscard]] std::unique_ptr<contract::subscription> add(const std::string& schema,
                                                              std::function<void()> ring);

private:
    using clock = std::chrono::steady_clock; // these waits are about threads, not about messages
    using time = clock::time_point;

    class subscriber;

    /// What the subscribers of a schema want, and what the server knows.
    struct wire {
        std::map<std::uint64_t, std::function<void()>> rings;
        std::set<std::uint64_t> asleep;
        bool listening = false;
        bool has_bell = false;
    };

    /// Transactions that were running when bells were taken: when one has ended, look again.
    struct note {
        std::vector<std::int64_t> running; ///< in order
        std::vector<std::string> channels;
        time check_at{};
        duration pause{};
    };

    void run();
    void work();
    void connect();
    void serve_lines();
    void ring_elsewhere();
    void arm(const std::vector<std::string>& channels);
    void take_bells_again();
    void draw_notes(const std::vector<std::string>& channels);
    void check_notes();
    void let_go(const std::string& channel);
    void hear();
    void rest(time until);
    void ring(const std::string& channel);
    void ring_all();
    void lose(const char* why);
    void wake() noexcept;
    void remove(const std::string& channel, std::uint64_t who);
    void sleeps(const std::string& channel, std::uint64_t who, bool asleep);
    void tell_others(const std::string& channel, std::uint64_t who);
    [[nodiscard]] std::vector<std::int64_t> running(std::int64_t before);
    [[nodiscard]] time next_step() const;

    location where_;
    environment world_;
    int waker_ = -1;

    std::mutex mutex_;                               ///< of what subscribers touch
    std::map<std::string, wire, std::less<>> lines_; ///< by channel, which is `schema.bell`
    std::set<std::string, std::less<>> changed_;     ///< channels whose wants have changed
    std::set<std::string, std::less<>> to_ring_;     ///< channels whose other listeners should look
    std::uint64_t next_ = 0;
    bool over_ = false;
    bool ended_ = false; ///< the thread has
    int socket_ = -1;    ///< of the connection, for whoever cannot wait for an answer
    std::condition_variable has_ended_;

    // Of the thread alone.
    std::unique_ptr<connection> db_;
    std::vector<note> notes_;
    std::int64_t own_id_ = 0;
    bool lost_ = false;
    reconnection connecting_;
    time routine_{};
    std::jthread thread_; // last: it uses everything above
};

} // namespace posthorn::postgres
