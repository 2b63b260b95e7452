// Signals arrive on a thread of their own, where anything may be done.
#include <posthorn/stop.hpp>

#include <csignal>
#include <pthread.h>
#include <thread>

namespace posthorn {
namespace {

sigset_t ending_signals()
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

} // namespace

struct stop_on_signals::state {
    sigset_t before{};
    std::stop_source drain;
    std::stop_source now;
    std::jthread listener;
};

stop_on_signals::stop_on_signals() : state_(std::make_unique<state>())
{
    const auto set = ending_signals();
    pthread_sigmask(SIG_BLOCK, &set, &state_->before);
    state_->listener = std::jthread([&state = *state_](const std::stop_token& over) {
        const auto awaited = ending_signals();
        const timespec slice{.tv_sec = 0, .tv_nsec = 50'000'000};
        while (!over.stop_requested()) {
            if (sigtimedwait(&awaited, nullptr, &slice) <= 0)
                continue;
            if (!state.drain.request_stop())
                state.now.request_stop();
        }
    });
}

stop_on_signals::~stop_on_signals()
{
    state_->listener.request_stop();
    state_->listener.join();
    pthread_sigmask(SIG_SETMASK, &state_->before, nullptr);
}

stop_request stop_on_signals::request() const
{
    return {state_->drain.get_token(), state_->now.get_token()};
}

} // namespace posthorn
