// How long a worker waits for its stores. A server that hangs answers nothing and closes nothing:
// a thread that waits for it must be able to stop waiting.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

namespace posthorn::contract {

/// The waits of one worker, on all of its threads. Threads: safe to use from any.
class patience {
public:
    /// Ends all waits for servers that were begun under it, and lets no other begin. What was
    /// waited for has failed as if the server had closed the connection.
    void give_up() noexcept;

    [[nodiscard]] bool is_over() const noexcept { return over_.load(); }

    /// Throws: `error` with `unavailable` if it is over.
    void require() const;

private:
    friend class socket_wait;

    std::atomic<bool> over_ = false;
    std::mutex mutex_;
    std::multiset<int> sockets_; ///< on which a thread waits that cannot look for itself
};

/// Under whose patience a thread asks stores, for as long as this object lives.
class patience_scope {
public:
    /// A worker claims, renews and settles with connections that its handlers leave to it.
    enum class of { worker, handler };

    patience_scope(patience& whose, of what) noexcept;
    patience_scope(const patience_scope&) = delete;
    patience_scope& operator=(const patience_scope&) = delete;
    ~patience_scope();

    /// Null: the thread waits for as long as the store lets it.
    [[nodiscard]] static patience* current() noexcept;
    [[nodiscard]] static bool is_worker() noexcept;

private:
    patience* before_;
    bool was_worker_;
};

/// A call that blocks on a socket: if the thread's patience ends meanwhile, the socket is shut down
/// and the call fails. Requires: the socket stays open for as long as this object lives.
class socket_wait {
public:
    /// Less than 0: there is nothing to shut down.
    explicit socket_wait(int socket) noexcept;
    socket_wait(const socket_wait&) = delete;
    socket_wait& operator=(const socket_wait&) = delete;
    ~socket_wait();

private:
    patience* whose_;
    int socket_;
};

/// Lets the thread rest between two attempts, until its patience is over.
void rest_patiently(const environment& world, duration length);

/// How often a wait looks whether the patience is over.
inline constexpr std::chrono::milliseconds patience_look_every{20};

/// Opens something that may hang in a client library, which cannot be interrupted: on a thread of
/// its own, so that it can be left behind. `open` must own all it uses.
template <typename Type>
std::unique_ptr<Type> open_patiently(std::function<std::unique_ptr<Type>()> open)
{
    auto* const whose = patience_scope::current();
    if (whose == nullptr)
        return open();
    whose->require();
    struct meeting {
        std::mutex mutex;
        std::condition_variable arrived;
        bool ended = false;
        std::unique_ptr<Type> made;
        std::exception_ptr thrown;
    };
    const auto here = std::make_shared<meeting>();
    try {
        std::thread([here, open] {
            std::unique_ptr<Type> made;
            std::exception_ptr thrown;
            try {
                made = open();
            } catch (...) {
                thrown = std::current_exception();
            }
            const std::lock_guard lock(here->mutex);
            here->made = std::move(made);
            here->thrown = std::move(thrown);
            here->ended = true;
            here->arrived.notify_all();
        }).detach();
    } catch (const std::system_error&) {
        return open(); // the machine has no more threads to give
    }
    std::unique_lock lock(here->mutex);
    while (!here->arrived.wait_for(lock, patience_look_every, [&] { return here->ended; }))
        whose->require();
    // Taken along, so that the other thread has nothing of it left to destroy.
    if (auto thrown = std::exchange(here->thrown, nullptr))
        std::rethrow_exception(std::move(thrown));
    return std::move(here->made);
}

} // namespace posthorn::contract
