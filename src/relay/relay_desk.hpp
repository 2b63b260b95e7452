// Where messages for one transport wait for each other, so that they travel together.
#pragma once

#include <posthorn/handler.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
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
/// Lifetime: a letter may hold the worker, and with it this desk, so it can end on a thread of its
/// own.
/// Threads: safe to use from any.
class relay_desk {
public:
    explicit relay_desk(std::shared_ptr<transport> to);
    relay_desk(const relay_desk&) = delete;
    relay_desk& operator=(const relay_desk&) = delete;
    ~relay_desk();

    void send(letter what);

private:
    class back_room;

    std::shared_ptr<back_room> room_; // shared with the threads
    std::vector<std::jthread> threads_;
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
