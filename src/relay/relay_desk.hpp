// Where messages for one transport wait for each other, so that they travel together.
#pragma once

#include <posthorn/handler.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace posthorn::runtime {

/// A message on its way out.
struct letter {
    transport_message message;
    delivery_view of;
    any_handler::ended ended;
    duration pause{};         ///< before it is tried again
    duration answer_within{}; ///< once it is sent
};

/// Publishes what is given to it on a few threads of its own. While the other side is away,
/// messages wait here with their leases renewed, and end unharmed if they are asked to.
/// Threads: safe to use from any.
class relay_desk {
public:
    explicit relay_desk(std::shared_ptr<transport> to);
    relay_desk(const relay_desk&) = delete;
    relay_desk& operator=(const relay_desk&) = delete;
    ~relay_desk();

    void send(letter what);

private:
    using lock = std::unique_lock<std::mutex>;

    void work(const std::stop_token& stop);
    std::vector<letter> next_batch(const std::stop_token& stop);
    bool wait_for_other_side(const std::stop_token& stop);
    void gather(lock& guard);
    void publish(std::vector<letter> batch, const std::stop_token& stop);
    std::vector<letter> take_unwanted();

    const std::shared_ptr<transport> to_; // shared with whoever else publishes to it
    const std::size_t batch_max_;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<letter> waiting_;
    std::size_t last_size_ = 0; ///< of the batch before: what comes next is about as many

    std::vector<std::jthread> threads_; // last: they use the rest
};

/// The desks of a worker, one for each transport.
class relay_desks {
public:
    std::shared_ptr<relay_desk> of(const std::shared_ptr<transport>& which)
    {
        const std::lock_guard guard(mutex_);
        auto& desk = desks_[which.get()];
        if (!desk)
            desk = std::make_shared<relay_desk>(which);
        return desk;
    }

private:
    std::mutex mutex_;
    std::map<const transport*, std::shared_ptr<relay_desk>> desks_; // shared with handlers
};

} // namespace posthorn::runtime
