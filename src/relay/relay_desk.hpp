// Where messages for one transport wait for each other, so that they travel together.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/handler.hpp>
#include <posthorn/relay.hpp>
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
    delivery_view of;
    any_handler::ended ended;
    std::shared_ptr<const relay_options> how; ///< shared by all of a rule
};

/// Publishes what is given to it on a few threads of its own. While the other side is away,
/// messages wait here with their leases renewed, and end unharmed if they are asked to.
/// Lifetime: a letter may hold the worker, and with it this desk, so it can end on a thread of its
/// own.
/// Threads: safe to use from any.
class relay_desk {
public:
    /// `log` hears what goes wrong there, and when it goes well again.
    explicit relay_desk(std::shared_ptr<transport> to, log_sink log = {});
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
    std::shared_ptr<relay_desk> of(const std::shared_ptr<transport>& which, const log_sink& log)
    {
        const std::lock_guard guard(mutex_);
        auto& desk = desks_[which.get()];
        if (!desk)
            desk = std::make_shared<relay_desk>(which, log);
        return desk;
    }

private:
    std::mutex mutex_;
    std::map<const transport*, std::shared_ptr<relay_desk>> desks_; // shared with handlers
};

} // namespace posthorn::runtime
