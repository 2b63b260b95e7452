// Subscribers by pattern, called where the message is published.
#include "core/validation.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/in_process.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace posthorn {

struct in_process_transport::subscription::state {
    std::string pattern;
    subscriber call;

    std::mutex mutex;
    std::condition_variable left;
    std::multiset<std::thread::id> inside; ///< who is in a call now
    bool over = false;

    [[nodiscard]] bool takes(std::string_view topic) const
    {
        const std::string_view wanted(pattern);
        return wanted.ends_with('*') ? topic.starts_with(wanted.substr(0, wanted.size() - 1))
                                     : topic == wanted;
    }

    // False: the subscription was over. Throws what the subscriber throws.
    bool deliver(const transport_message& what)
    {
        {
            const std::lock_guard lock(mutex);
            if (over)
                return false;
            inside.insert(std::this_thread::get_id());
        }
        struct leaving {
            state& of;
            ~leaving()
            {
                const std::lock_guard lock(of.mutex);
                of.inside.erase(of.inside.find(std::this_thread::get_id()));
                of.left.notify_all();
            }
        } const at_end{*this};
        call(what);
        return true;
    }

    // Waits for calls of other threads; one that ends its own subscription cannot wait for itself.
    void end()
    {
        std::unique_lock lock(mutex);
        over = true;
        left.wait(lock, [&] { return inside.count(std::this_thread::get_id()) == inside.size(); });
    }
};

struct in_process_transport::state {
    using subscription_ptr = std::shared_ptr<subscription::state>;

    in_process_options options;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<subscription_ptr> subscriptions;
    std::multiset<std::thread::id> publishing;
    bool closed = false;

    std::vector<subscription_ptr> takers(std::string_view topic)
    {
        const std::lock_guard lock(mutex);
        std::erase_if(subscriptions, [](const auto& each) {
            const std::lock_guard inner(each->mutex);
            return each->over;
        });
        std::vector<subscription_ptr> result;
        std::ranges::copy_if(subscriptions, std::back_inserter(result),
                             [&](const auto& each) { return each->takes(topic); });
        return result;
    }

    publish_answer deliver(const transport_message& what)
    {
        if (what.payload.size() > options.payload_bytes_max)
            return publish_answer::no(refusal::too_large,
                                      fmt::format("the payload is {} bytes long; at most {} are "
                                                  "carried",
                                                  what.payload.size(), options.payload_bytes_max));
        const auto scope = correlation_scope::begin_from(correlation_of(what.id, what.headers));
        bool somebody = false;
        for (const auto& each : takers(what.topic)) {
            try {
                somebody = each->deliver(what) || somebody;
            } catch (const std::exception& thrown) {
                return publish_answer::no(refusal::rejected, thrown.what());
            } catch (...) {
                return publish_answer::no(refusal::rejected,
                                          "a subscriber threw what is not a std::exception");
            }
        }
        if (!somebody && options.mandatory)
            return publish_answer::no(refusal::unroutable,
                                      "nobody has subscribed to the topic '" + what.topic + "'");
        return publish_answer::yes();
    }
};

namespace {

bool is_over(const time_limit& how_long)
{
    return how_long.stop.stop_requested() ||
           (how_long.until && std::chrono::steady_clock::now() >= *how_long.until);
}

} // namespace

in_process_transport::subscription::subscription(std::shared_ptr<state> of) : state_(std::move(of))
{}
in_process_transport::subscription::subscription(subscription&&) noexcept = default;

in_process_transport::subscription& in_process_transport::subscription::operator=(
    subscription&& other) noexcept
{
    if (const auto old = std::exchange(state_, std::move(other.state_)))
        old->end();
    return *this;
}

in_process_transport::subscription::~subscription()
{
    if (state_)
        state_->end();
}

in_process_transport::in_process_transport(in_process_options options)
    : state_(std::make_shared<state>())
{
    state_->options = options;
}

in_process_transport::~in_process_transport() = default;

in_process_transport::subscription in_process_transport::subscribe(std::string_view pattern,
                                                                   subscriber what)
{
    if (pattern.empty() || !what)
        throw error(error_code::invalid_argument, "a subscription needs a topic and a function");
    core::check_topic(pattern);
    auto made = std::make_shared<subscription::state>();
    made->pattern = pattern;
    made->call = std::move(what);
    const std::lock_guard lock(state_->mutex);
    state_->subscriptions.push_back(made);
    return subscription(std::move(made));
}

std::vector<publish_answer> in_process_transport::publish(std::span<const transport_message> what,
                                                          const time_limit& how_long)
{
    const auto of = state_; // a subscriber may end the transport
    const auto self = std::this_thread::get_id();
    auto instead = refusal::none; // of sending
    {
        const std::lock_guard lock(of->mutex);
        if (of->closed)
            instead = refusal::closed;
        else if (of->publishing.count(self) >= of->options.depth_max)
            instead = refusal::busy;
        else
            of->publishing.insert(self);
    }
    if (instead != refusal::none)
        return std::vector(what.size(), publish_answer::no(instead));
    struct leaving {
        state& from;
        std::thread::id self;
        ~leaving()
        {
            const std::lock_guard lock(from.mutex);
            from.publishing.erase(from.publishing.find(self));
            from.changed.notify_all();
        }
    } const at_end{*of, self};
    std::vector<publish_answer> result;
    result.reserve(what.size());
    std::set<std::string_view> stuck; // keys of which a message was not accepted
    for (const auto& each : what) {
        if (stuck.contains(each.key))
            result.push_back(publish_answer::no(refusal::held_back));
        else if (is_over(how_long))
            result.push_back(publish_answer::no(refusal::busy, "there was no time left"));
        else
            result.push_back(of->deliver(each));
        if (!each.key.empty() && !result.back().accepted())
            stuck.insert(each.key);
    }
    return result;
}

bool in_process_transport::wait_until_ready(const time_limit& /*how_long*/)
{
    const std::lock_guard lock(state_->mutex);
    return !state_->closed;
}

void in_process_transport::close(const time_limit& how_long)
{
    const auto self = std::this_thread::get_id();
    // Before the lock, which it takes too, and which must be free when this ends.
    const std::stop_callback wake(how_long.stop, [of = state_] {
        const std::lock_guard inner(of->mutex);
        of->changed.notify_all();
    });
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    const auto others_are_gone = [&] {
        return state_->publishing.count(self) == state_->publishing.size();
    };
    const auto enough = [&] { return others_are_gone() || how_long.stop.stop_requested(); };
    if (how_long.until)
        state_->changed.wait_until(lock, *how_long.until, enough);
    else
        state_->changed.wait(lock, enough);
}

transport_capabilities in_process_transport::capabilities() const
{
    return {.payload_bytes_max = state_->options.payload_bytes_max,
            .confirms = true,
            .reports_unroutable = state_->options.mandatory,
            .keeps_order = true};
}

} // namespace posthorn
