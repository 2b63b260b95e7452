// How claimed messages reach the threads of their handlers, and what becomes of them where there is
// no thread or no handler.
#include "runtime/dispatcher.hpp"
#include "runtime/invocation.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <system_error>
#include <utility>

namespace posthorn::runtime {
namespace {

// A machine that has no thread left may have one after about this long.
constexpr duration without_thread_pause = std::chrono::seconds{1};

} // namespace

// Without a thread they are given back, unharmed.
void dispatcher::hand_to_threads(const std::vector<running_ptr>& members)
{
    if (members.empty())
        return;
    std::vector<std::function<void()>> tasks;
    tasks.reserve(members.size());
    for (const auto& each : members)
        tasks.emplace_back([with = with_, which = each] { invoke(with, which); });
    try {
        with_->threads.submit(std::move(tasks));
    } catch (const std::system_error& why) {
        for (const auto& each : members)
            with_->held.ended(each, postpone(without_thread_pause));
        throw error(error_code::unavailable,
                    fmt::format("cannot start a thread for handlers ({}): raise the limits of "
                                "memory and processes (ulimit -v, ulimit -u)",
                                why.code().message()));
    }
    with_->held.poke();
}

void dispatcher::warn_once(const std::string& topic)
{
    const auto& world = with_->source->environment();
    if (warned_.insert(topic).second && world.log)
        world.log(log_level::warning,
                  fmt::format("topic '{}' has no handler here: its messages are parked until a "
                              "worker with a handler for it comes",
                              topic));
}

} // namespace posthorn::runtime
