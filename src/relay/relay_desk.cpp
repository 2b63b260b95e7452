// Batches out, answers in.
#include "relay/relay_desk.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// While one batch waits for its answers the next is on its way.
constexpr std::size_t publishers = 2;

// More would wait longer for their answers than it saves.
constexpr std::size_t batch_limit = 1'000;

// A worker hands over a claim message by message: those that follow at once share a batch.
constexpr auto gather_step = 100us;

// How often it looks for messages that are not to wait any longer.
constexpr duration look_every = 50ms;

monotonic_time in(duration length)
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
}

// Whoever else may have it now, or whoever wants to end: it has not been sent.
bool is_unwanted(const letter& which)
{
    return which.of.is_lost() || which.of.stop_token().stop_requested();
}

void give_back(std::vector<letter> what)
{
    for (auto& each : what)
        each.ended(postpone(duration::zero()));
}

} // namespace

relay_desk::relay_desk(std::shared_ptr<transport> to)
    : to_(std::move(to)),
      batch_max_(std::clamp<std::size_t>(to_->capabilities().batch_max, 1, batch_limit))
{
    for (std::size_t i = 0; i < publishers; ++i)
        threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

relay_desk::~relay_desk()
{
    for (auto& each : threads_)
        each.request_stop();
    threads_.clear();
    give_back({std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end())});
}

void relay_desk::send(letter what)
{
    {
        const std::lock_guard guard(mutex_);
        waiting_.push_back(std::move(what));
        if (waiting_.size() > 1) // somebody is on the way to them
            return;
    }
    changed_.notify_one();
}

void relay_desk::work(const std::stop_token& stop)
{
    while (!stop.stop_requested())
        if (auto batch = next_batch(stop); !batch.empty())
            publish(std::move(batch), stop);
}

// Nothing: look again.
std::vector<letter> relay_desk::next_batch(const std::stop_token& stop)
{
    {
        lock guard(mutex_);
        if (!changed_.wait(guard, stop, [&] { return !waiting_.empty(); }))
            return {};
    }
    if (!wait_for_other_side(stop))
        return {};
    lock guard(mutex_);
    gather(guard);
    const auto size = std::min(waiting_.size(), batch_max_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(size);
    std::vector<letter> batch(std::make_move_iterator(waiting_.begin()),
                              std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    last_size_ = size;
    if (!waiting_.empty()) // the next one need not wait until somebody brings another message
        changed_.notify_one();
    return batch;
}

// False: there is nothing to send any more.
bool relay_desk::wait_for_other_side(const std::stop_token& stop)
{
    for (;;) {
        const auto look_at = in(look_every);
        if (to_->wait_until_ready({.until = look_at, .stop = stop}))
            return true;
        give_back(take_unwanted());
        const std::lock_guard guard(mutex_);
        if (stop.stop_requested() || waiting_.empty())
            return false;
        if (in({}) < look_at) // it did not even wait: it is closed, and says so to whoever sends
            return true;
    }
}

std::vector<letter> relay_desk::take_unwanted()
{
    const std::lock_guard guard(mutex_);
    const auto unwanted = std::stable_partition(
        waiting_.begin(), waiting_.end(), [](const letter& each) { return !is_unwanted(each); });
    std::vector<letter> result(std::make_move_iterator(unwanted),
                               std::make_move_iterator(waiting_.end()));
    waiting_.erase(unwanted, waiting_.end());
    return result;
}

// Only as long as more arrive; a single message is not held up if the last one was single, too.
void relay_desk::gather(lock& guard)
{
    std::size_t before = 0;
    while (last_size_ > 1 && waiting_.size() < batch_max_ && waiting_.size() != before) {
        before = waiting_.size();
        changed_.wait_for(guard, gather_step);
    }
}

void relay_desk::publish(std::vector<letter> batch, const std::stop_token& stop)
{
    const auto unwanted = std::stable_partition(
        batch.begin(), batch.end(), [](const letter& each) { return !is_unwanted(each); });
    give_back({std::make_move_iterator(unwanted), std::make_move_iterator(batch.end())});
    batch.erase(unwanted, batch.end());
    if (batch.empty())
        return;
    std::vector<transport_message> messages;
    messages.reserve(batch.size());
    auto limit = duration::max();
    for (auto& each : batch) {
        messages.push_back(std::move(each.message));
        limit = std::min(limit, each.answer_within);
    }
    std::vector<publish_answer> answers;
    std::exception_ptr thrown;
    try {
        answers = to_->publish(messages, {.until = in(limit), .stop = stop});
    } catch (...) { // a bug of the transport, and no reason to lose a message
        thrown = std::current_exception();
    }
    for (std::size_t i = 0; i < batch.size(); ++i)
        if (i < answers.size())
            batch[i].ended(outcome_of(answers[i], batch[i].pause));
        else if (thrown)
            batch[i].ended(thrown);
        else
            batch[i].ended(postpone(batch[i].pause));
}

} // namespace posthorn::runtime
