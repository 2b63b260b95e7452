// Several transactions at once, on connections and threads of their own, whose steps a test brings
// into any order. A step that has to wait for a lock is left waiting, and the others go on.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::conformance {

/// One who does the steps of a script, on a handle and a thread of its own.
class player {
public:
    using step = std::function<void(player&)>;

    explicit player(store handle);
    player(const player&) = delete;
    player& operator=(const player&) = delete;
    ~player();

    /// For steps: what they work on. They run on the thread of the player.
    [[nodiscard]] store& handle() { return handle_; }
    [[nodiscard]] transaction& tx() { return tx_.value(); }
    void begin() { tx_.emplace(handle_.begin()); }
    void commit() { tx_->commit(); }
    void rollback() { tx_->rollback(); }

    /// For the test: a new script, of which nothing happens until a step is allowed.
    void learn(std::vector<step> script);
    void allow_one_step();

    /// Whether everything that was allowed has been done before the time is over.
    [[nodiscard]] bool rests_within(std::chrono::milliseconds time);

    /// What made the player stop, if something did.
    [[nodiscard]] std::exception_ptr trouble();

    /// How often a script was started again after an error that asks for it.
    [[nodiscard]] std::size_t restarts();

private:
    void run(const std::stop_token& stop);
    void do_step(std::size_t which);

    store handle_;
    std::optional<transaction> tx_;

    std::mutex mutex_; // guards what follows
    std::condition_variable_any changed_;
    std::vector<step> script_;
    std::size_t allowed_ = 0;
    std::size_t done_ = 0;
    std::size_t restarts_ = 0;
    std::exception_ptr trouble_;

    std::jthread thread_; // last: it uses everything above
};

/// A transaction in three steps, which commits or rolls back.
[[nodiscard]] std::vector<player::step> in_a_transaction(std::function<void(transaction&)> what,
                                                         bool commits = true);

/// One call with a transaction of its own: a single step.
[[nodiscard]] std::vector<player::step> alone(std::function<void(store&)> what);

/// Every order in which scripts of so many steps can be mixed; each lists whose turn it is.
[[nodiscard]] std::vector<std::vector<std::size_t>> orders_of(
    const std::vector<std::size_t>& steps);

} // namespace posthorn::conformance
