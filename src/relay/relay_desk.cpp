// Batches out, answers in.
#include "relay/relay_desk.hpp"

#include "relay/diary.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// More would wait longer for their answers than it saves.
constexpr std::size_t batch_limit = 1'000;

// A worker hands over a claim message by message: those that follow at once share a batch.
constexpr auto gather_step = 100us;

// How often it looks for messages that are not to wait any longer. A look is also all the time that
// a transport has to find out whether the other side is there, which may be far away.
constexpr duration first_look = 50ms;
constexpr duration longest_look = 1s;

monotonic_time in(duration length)
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
}

// Whoever else may have it now, or whoever wants to end: it has not been sent.
bool is_unwanted(const letter& which)
{
    return which.of.is_lost() || which.of.stop_token().stop_requested();
}

transport_message message_for(const letter& which)
{
    const auto& from = which.of.message();
    auto result = to_transport(from);
    if (!which.how->destination.empty())
        result.destination = which.how->destination.filled(from, which.of.store());
    if (!which.how->key.empty())
        result.key = which.how->key.filled(from, which.of.store());
    return result;
}

void give_back(std::vector<letter> what)
{
    for (auto& each : what)
        each.ended(postpone(duration::zero()));
}

} // namespace

class relay_desk::back_room {
public:
    back_room(std::shared_ptr<transport> to, log_sink log)
        : to_(std::move(to)),
          batch_max_(std::clamp<std::size_t>(to_->capabilities().batch_max, 1, batch_limit)),
          diary_(to_->name(), std::move(log))
    {}

    void send(letter what);
    void work(const std::stop_token& stop);
    void give_all_back();

private:
    using lock = std::unique_lock<std::mutex>;

    std::vector<letter> next_batch(const std::stop_token& stop);
    bool wait_for_other_side(const std::stop_token& stop);
    void gather(lock& guard);
    void publish(std::vector<letter> batch, const std::stop_token& stop);
    static std::vector<transport_message> written(std::vector<letter>& batch);
    std::vector<letter> take_unwanted();

    const std::shared_ptr<transport> to_; // shared with whoever else publishes to it
    const std::size_t batch_max_;
    transport_diary diary_;
    std::atomic<int> publishing_ = 0;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<letter> waiting_;
    std::size_t last_size_ = 0; ///< of the batch before: what comes next is about as many
};

relay_desk::relay_desk(std::shared_ptr<transport> to, log_sink log)
{
    const auto publishers = std::clamp<std::size_t>(to->capabilities().calls_at_once, 1, 8);
    room_ = std::make_shared<back_room>(std::move(to), std::move(log));
    for (std::size_t i = 0; i < publishers; ++i)
        threads_.emplace_back([room = room_](const std::stop_token& stop) { room->work(stop); });
}

relay_desk::~relay_desk()
{
    for (auto& each : threads_)
        each.request_stop();
    for (auto& each : threads_)
        if (each.get_id() == std::this_thread::get_id())
            each.detach(); // it is on its way out, and has the room to itself
        else
            each.join();
    room_->give_all_back();
}

void relay_desk::send(letter what)
{
    room_->send(std::move(what));
}

void relay_desk::back_room::give_all_back()
{
    std::deque<letter> all;
    {
        const std::lock_guard guard(mutex_);
        all.swap(waiting_);
    }
    give_back({std::make_move_iterator(all.begin()), std::make_move_iterator(all.end())});
}

void relay_desk::back_room::send(letter what)
{
    {
        const std::lock_guard guard(mutex_);
        waiting_.push_back(std::move(what));
        if (waiting_.size() > 1) // somebody is on the way to them
            return;
    }
    changed_.notify_one();
}

void relay_desk::back_room::work(const std::stop_token& stop)
{
    while (!stop.stop_requested())
        if (auto batch = next_batch(stop); !batch.empty())
            publish(std::move(batch), stop);
}

// Nothing: look again.
std::vector<letter> relay_desk::back_room::next_batch(const std::stop_token& stop)
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
bool relay_desk::back_room::wait_for_other_side(const std::stop_token& stop)
{
    auto away_since = in({});
    for (auto look = first_look;; look = std::min(look * 2, longest_look)) {
        const auto look_at = in(look);
        if (to_->wait_until_ready({.until = look_at, .stop = stop})) {
            diary_.note_presence();
            return true;
        }
        give_back(take_unwanted());
        const std::lock_guard guard(mutex_);
        if (stop.stop_requested() || waiting_.empty())
            return false;
        if (in({}) < look_at) // it did not even wait: it is closed, and says so to whoever sends
            return true;
        if (publishing_ > 0) // it may be busy with the batch before
            away_since = in({});
        diary_.note_absence(in({}) - away_since);
    }
}

std::vector<letter> relay_desk::back_room::take_unwanted()
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
void relay_desk::back_room::gather(lock& guard)
{
    std::size_t before = 0;
    while (last_size_ > 1 && waiting_.size() < batch_max_ && waiting_.size() != before) {
        before = waiting_.size();
        changed_.wait_for(guard, gather_step);
    }
}

// On this thread, since the worker's has enough to do. What lacks something that its rule asks for
// ends here.
std::vector<transport_message> relay_desk::back_room::written(std::vector<letter>& batch)
{
    std::vector<transport_message> messages;
    messages.reserve(batch.size());
    std::erase_if(batch, [&](const letter& each) {
        try {
            messages.push_back(message_for(each));
            return false;
        } catch (...) {
            each.ended(std::current_exception());
            return true;
        }
    });
    return messages;
}

void relay_desk::back_room::publish(std::vector<letter> batch, const std::stop_token& stop)
{
    const auto unwanted = std::stable_partition(
        batch.begin(), batch.end(), [](const letter& each) { return !is_unwanted(each); });
    give_back({std::make_move_iterator(unwanted), std::make_move_iterator(batch.end())});
    batch.erase(unwanted, batch.end());
    const auto messages = written(batch);
    if (batch.empty())
        return;
    auto limit = duration::max();
    for (const auto& each : batch)
        limit = std::min(limit, each.how->answer_within);
    std::vector<publish_answer> answers;
    std::exception_ptr thrown;
    ++publishing_;
    try {
        answers = to_->publish(messages, {.until = in(limit), .stop = stop});
    } catch (...) { // a bug of the transport, and no reason to lose a message
        thrown = std::current_exception();
    }
    --publishing_;
    if (!stop.stop_requested()) // else it was told to give up
        diary_.note_answers(answers, in({}));
    for (std::size_t i = 0; i < batch.size(); ++i)
        if (i < answers.size())
            batch[i].ended(outcome_of(answers[i], batch[i].how->pause, batch[i].how->unroutable));
        else if (thrown)
            batch[i].ended(thrown);
        else
            batch[i].ended(postpone(batch[i].how->pause));
}

} // namespace posthorn::runtime
