// Players, and every order of their steps.
#include "conformance/players.hpp"

#include <posthorn/error.hpp>

#include <algorithm>

namespace posthorn::conformance {
namespace {

constexpr std::size_t restarts_max = 50; // of one step: more is no accident

} // namespace

player::player(store handle)
    : handle_(std::move(handle)), thread_([this](const std::stop_token& stop) { run(stop); })
{}

player::~player()
{
    thread_.request_stop();
    thread_.join();
}

void player::learn(std::vector<step> script)
{
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
    allowed_ = 0;
    done_ = 0;
}

void player::allow_one_step()
{
    const std::lock_guard lock(mutex_);
    ++allowed_;
    changed_.notify_all();
}

bool player::rests_within(std::chrono::milliseconds time)
{
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return done_ == allowed_ || trouble_; });
}

std::exception_ptr player::trouble()
{
    const std::lock_guard lock(mutex_);
    return trouble_;
}

std::size_t player::restarts()
{
    const std::lock_guard lock(mutex_);
    return restarts_;
}

void player::run(const std::stop_token& stop)
{
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return done_ < allowed_ && !trouble_; })) {
        const auto which = done_;
        lock.unlock();
        std::exception_ptr trouble;
        try {
            do_step(which);
        } catch (...) { // the test looks at it: this thread has nobody to throw to
            trouble = std::current_exception();
        }
        lock.lock();
        trouble_ = trouble;
        ++done_;
        if (done_ == script_.size() || trouble)
            tx_.reset();
        changed_.notify_all();
    }
}

// A deadlock or a conflict undoes the transaction; then it runs again from its start, up to here.
void player::do_step(std::size_t which)
{
    std::size_t next = which;
    for (std::size_t again = 0;; ++again) {
        try {
            for (; next <= which; ++next)
                script_[next](*this);
            return;
        } catch (const error& failure) {
            if (!failure.retryable() || failure.in_doubt() || again == restarts_max)
                throw;
            tx_.reset();
            next = 0;
            const std::lock_guard lock(mutex_);
            ++restarts_;
        }
    }
}

std::vector<player::step> in_a_transaction(std::function<void(transaction&)> what, bool commits)
{
    return {[](player& who) { who.begin(); },
            [what = std::move(what)](player& who) { what(who.tx()); },
            [commits](player& who) { commits ? who.commit() : who.rollback(); }};
}

std::vector<player::step> alone(std::function<void(store&)> what)
{
    return {[what = std::move(what)](player& who) { what(who.handle()); }};
}

std::vector<std::vector<std::size_t>> orders_of(const std::vector<std::size_t>& steps)
{
    std::vector<std::size_t> order;
    for (std::size_t who = 0; who < steps.size(); ++who)
        order.insert(order.end(), steps[who], who);
    std::vector<std::vector<std::size_t>> all;
    do
        all.push_back(order);
    while (std::ranges::next_permutation(order).found);
    return all;
}

} // namespace posthorn::conformance
