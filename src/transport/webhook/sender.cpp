// One loop: take what is new, end what is late, let curl work, start what may start, wait.
#include "transport/webhook/sender.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <set>
#include <utility>

namespace posthorn::transports {
namespace {

constexpr std::size_t endpoints_max = 1'000; // more are forgotten when nothing is lost with them
constexpr duration unused_max = std::chrono::hours{1}; // then nobody cares any more how it was
constexpr auto no_time_left = "there was no time left";

monotonic_time real_now()
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
}

// Signals are for the application's threads; and a peer that goes away must not end the process.
void block_signals()
{
    sigset_t all{};
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

} // namespace

sender::sender(transfer_setting with, environment world)
    : setting_(std::move(with)),
      world_(std::move(world)),
      breaker_{.failures = setting_.options.failures_max,
               .pause_min = setting_.options.pause_min,
               .pause_max = setting_.options.pause_max}
{
    static const auto ready = curl_global_init(CURL_GLOBAL_DEFAULT); // once per process
    multi_.reset(ready == CURLE_OK ? curl_multi_init() : nullptr);
    if (!multi_)
        throw error(error_code::internal, "curl cannot be initialised");
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS,
                      static_cast<long>(setting_.options.parallel));
    thread_ = std::thread([this] {
        block_signals();
        run();
    });
}

sender::~sender()
{
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    curl_multi_wakeup(multi_.get());
    thread_.join();
    for (const auto& [name, each] : endpoints_)
        if (each.health.is_left())
            tell_owner(name, false);
}

void sender::send(webhook_batch& what, std::stop_token stop)
{
    {
        const std::lock_guard lock(mutex_);
        incoming_.push_back(&what);
    }
    curl_multi_wakeup(multi_.get());
    const std::stop_callback told(std::move(stop), [&] {
        {
            const std::lock_guard lock(mutex_);
            what.cancelled = true;
        }
        curl_multi_wakeup(multi_.get());
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return what.done; });
}

void sender::run()
{
    while (take_work()) {
        cut_what_is_late();
        int still_running = 0;
        curl_multi_perform(multi_.get(), &still_running);
        read_results();
        // Now and then also if nothing happens: what is not used is forgotten.
        if (std::exchange(pump_everything_, false) || running_.empty())
            pump_all();
        finish_batches();
        curl_multi_poll(multi_.get(), nullptr, 0, wait_ms(), nullptr);
    }
    for (auto* each : batches_)
        cut(*each, "the transport ends");
    finish_batches();
}

bool sender::take_work()
{
    std::vector<webhook_batch*> fresh;
    std::vector<webhook_batch*> cancelled;
    {
        const std::lock_guard lock(mutex_);
        fresh = std::exchange(incoming_, {});
        batches_.insert(batches_.end(), fresh.begin(), fresh.end());
        if (stopping_)
            return false;
        std::ranges::copy_if(batches_, std::back_inserter(cancelled), &webhook_batch::cancelled);
    }
    for (auto* each : cancelled)
        cut(*each, "it was told to stop");
    for (auto* each : fresh)
        if (std::ranges::find(cancelled, each) == cancelled.end())
            admit(*each);
    return true;
}

void sender::admit(webhook_batch& what)
{
    if (what.until && real_now() >= *what.until)
        return cut(what, no_time_left);
    if (what.asks_for)
        return admit_question(what);
    std::set<std::string_view> begun;
    for (std::size_t i = 0; i < what.entries.size(); ++i) {
        const auto& key = what.messages[i].key;
        if (what.entries[i].answered)
            continue;
        if (key.empty())
            endpoints_[what.entries[i].target->endpoint].waiting.push_back({&what, i});
        else if (begun.insert(key).second)
            admit_next(what, key);
    }
    pump_everything_ = true;
}

// Lets the first message go that is left of a key.
void sender::admit_next(webhook_batch& of, std::string_view key)
{
    auto& left = of.keys[key];
    if (left.empty())
        return;
    const auto index = left.front();
    left.pop_front();
    endpoints_[of.entries[index].target->endpoint].waiting.push_back({&of, index});
    pump_everything_ = true;
}

void sender::admit_question(webhook_batch& what)
{
    const auto found = endpoints_.find(what.asks_for->endpoint);
    const auto may = found == endpoints_.end()
                         ? endpoint_health::permission{}
                         : found->second.health.ask(world_.clock->monotonic());
    using kind = endpoint_health::permission::kind;
    if (may.what == kind::left || may.what == kind::resting) {
        what.ask_again_in = may.for_how_long;
        what.open = 0;
        return;
    }
    if (default_is_well_) {
        what.is_there = true;
        what.open = 0;
        return;
    }
    const auto at = endpoints_.try_emplace(what.asks_for->endpoint).first;
    if (!start(at, {&what, 0}, {}))
        what.open = 0;
}

easy_handle sender::an_easy_handle()
{
    if (spare_.empty())
        return easy_handle(curl_easy_init());
    auto result = std::move(spare_.back());
    spare_.pop_back();
    return result;
}

bool sender::start(endpoints::iterator at, place_in_batch which,
                   const endpoint_health::permission& with)
{
    auto easy = an_easy_handle();
    if (!easy)
        return false;
    auto& made = running_.emplace_back(setting_, *which.batch, which.index, std::move(easy));
    const auto now = std::chrono::floor<std::chrono::seconds>(world_.clock->now());
    if (!made.prepare(now.time_since_epoch().count()) ||
        curl_multi_add_handle(multi_.get(), made.handle()) != CURLM_OK) {
        running_.pop_back();
        return false;
    }
    made.is_trial = with.is_trial;
    auto& to = at->second;
    to.health.began(with);
    ++to.running;
    to.shown = made.target().shown;
    return true;
}

void sender::pump_all()
{
    // Where places are scarce, those begin that came last the time before.
    std::vector<endpoints::iterator> all;
    for (auto at = endpoints_.upper_bound(served_last_); at != endpoints_.end(); ++at)
        all.push_back(at);
    for (auto at = endpoints_.begin(); all.size() < endpoints_.size(); ++at)
        all.push_back(at);
    for (const auto at : all) {
        if (!at->second.waiting.empty() && running_.size() < setting_.options.parallel)
            served_last_ = at->first;
        pump(at);
        forget(at);
    }
}

void sender::pump(endpoints::iterator at)
{
    using kind = endpoint_health::permission::kind;
    auto& to = at->second;
    while (!to.waiting.empty() && to.running < setting_.options.parallel_per_endpoint &&
           running_.size() < setting_.options.parallel) {
        const auto may = to.health.ask(world_.clock->monotonic());
        if (may.what == kind::wait)
            return;
        const auto next = to.waiting.front();
        to.waiting.pop_front();
        const auto& shown = next.batch->entries[next.index].target->shown;
        publish_answer instead;
        if (may.what == kind::go) {
            if (start(at, next, may))
                continue;
            instead = publish_answer::no(refusal::unavailable,
                                         fmt::format("{}: no connection can be made", shown));
        } else if (may.what == kind::left) {
            instead = publish_answer::no(
                refusal::unavailable,
                fmt::format("{} is left alone: it failed too often in a row", shown));
            instead.retry_in = may.for_how_long;
        } else {
            instead = publish_answer::no(
                refusal::busy, fmt::format("{} has asked to be left alone for now", shown));
            instead.retry_in = may.for_how_long;
        }
        answer(*next.batch, next.index, std::move(instead));
    }
}

void sender::forget(endpoints::iterator which)
{
    const auto& what = which->second;
    if (what.running > 0 || !what.waiting.empty())
        return;
    const auto now = world_.clock->monotonic();
    const bool is_left = what.health.is_left();
    const bool is_unused = is_left && what.health.may_be_forgotten(now - unused_max);
    if (!what.health.is_well() && !is_unused &&
        (endpoints_.size() <= endpoints_max || !what.health.may_be_forgotten(now)))
        return;
    if (is_left) {
        say(log_level::info,
            fmt::format("webhook {} is forgotten: nothing is sent there any more", what.shown));
        tell_owner(which->first, false);
    }
    endpoints_.erase(which);
}

void sender::read_results()
{
    int left = 0;
    while (const auto* said = curl_multi_info_read(multi_.get(), &left)) {
        if (said->msg != CURLMSG_DONE)
            continue;
        const auto result = said->data.result;
        const auto which = std::ranges::find(running_, said->easy_handle,
                                             [](const auto& each) { return each.handle(); });
        curl_multi_remove_handle(multi_.get(), which->handle()); // `said` is gone with it
        end(which, which->ended(result));
    }
}

void sender::end(std::list<transfer>::iterator which, const transfer::end& how)
{
    const auto at = endpoints_.find(which->target().endpoint);
    auto& to = at->second;
    auto& of = which->batch();
    --to.running;
    pump_everything_ = true;
    if (of.asks_for) {
        // Who would refuse it for good need not be waited for.
        of.is_there = how.how == exchange::good || is_permanent(how.answer.why);
        of.open = 0;
    } else {
        const bool was_left = to.health.is_left();
        const auto pause = to.health.ended(which->is_trial, how.how, how.retry_after,
                                           world_.clock->monotonic(), breaker_, *world_.random);
        if (at->first == setting_.usual_endpoint && how.how != exchange::cut)
            default_is_well_ = to.health.is_well();
        tell(*at, was_left, pause, how.answer);
        answer(of, which->index(), how.answer);
    }
    spare_.push_back(which->give_back());
    running_.erase(which);
}

// Once when it begins and once when it ends; each trial that fails meanwhile is no news.
void sender::tell(endpoints::const_reference about, bool was_left, std::optional<duration> pause,
                  const publish_answer& last) const
{
    const auto& [name, to] = about;
    const bool is_left = to.health.is_left();
    if (pause)
        say(was_left ? log_level::debug : log_level::warning,
            fmt::format("webhook {} is left alone for {} ms, after failures in a row; the last: {}",
                        to.shown, pause->count() / 1'000, last.detail));
    else if (was_left && !is_left)
        say(log_level::info, fmt::format("webhook {} answers again", to.shown));
    if (was_left != is_left)
        tell_owner(name, is_left);
}

void sender::tell_owner(const std::string& endpoint, bool is_left) const
{
    if (setting_.options.on_endpoint)
        setting_.options.on_endpoint(endpoint, is_left);
}

void sender::say(log_level level, const std::string& line) const
{
    if (world_.log)
        world_.log(level, line);
}

void sender::answer(webhook_batch& of, std::size_t index, publish_answer what)
{
    of.entries[index].answered = true;
    of.answers[index] = std::move(what);
    --of.open;
    const auto& key = of.messages[index].key;
    if (key.empty())
        return;
    if (of.answers[index].accepted())
        return admit_next(of, key);
    for (const auto each : std::exchange(of.keys[key], {}))
        if (!of.entries[each].answered)
            answer(of, each, publish_answer::no(refusal::held_back));
}

void sender::cut(webhook_batch& what, std::string_view reason)
{
    for (auto& [name, each] : endpoints_)
        std::erase_if(each.waiting,
                      [&](const place_in_batch& place) { return place.batch == &what; });
    for (auto each = running_.begin(); each != running_.end();) {
        const auto which = each++;
        if (&which->batch() != &what)
            continue;
        curl_multi_remove_handle(multi_.get(), which->handle());
        end(which, which->cut(reason));
    }
    for (std::size_t i = 0; i < what.entries.size(); ++i)
        if (!what.entries[i].answered)
            answer(what, i, publish_answer::no(refusal::busy, std::string(reason)));
    // An answer that was in time may have let another one go.
    for (auto& [name, each] : endpoints_)
        std::erase_if(each.waiting,
                      [&](const place_in_batch& place) { return place.batch == &what; });
    what.open = 0;
}

void sender::cut_what_is_late()
{
    const auto now = real_now();
    for (auto* each : batches_)
        if (each->until && now >= *each->until && each->open > 0)
            cut(*each, no_time_left);
}

void sender::finish_batches()
{
    const auto is_over = [](const webhook_batch* each) { return each->open == 0; };
    if (std::ranges::none_of(batches_, is_over))
        return;
    const std::lock_guard lock(mutex_);
    for (auto* each : batches_)
        each->done = is_over(each);
    std::erase_if(batches_, is_over);
    changed_.notify_all();
}

int sender::wait_ms() const
{
    if (pump_everything_)
        return 0;
    auto wait = std::chrono::milliseconds{60'000}; // new work wakes it
    const auto now = real_now();
    for (const auto* each : batches_)
        if (each->until)
            wait = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*each->until - now),
                              std::chrono::milliseconds{0}, wait);
    return static_cast<int>(wait.count());
}

} // namespace posthorn::transports
