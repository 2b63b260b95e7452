// The verb `tail`: shows messages as they come and as they change. It only looks, a few times a
// second: the newest positions once more each time, since transactions commit in any order, and
// older messages that may still change one by one: open ones, and dead ones, which can be redriven.
#include "app/cli/record_view.hpp"
#include "app/cli/state_words.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/messages.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <tuple>

namespace posthorn::cli {
namespace {

constexpr auto look_for_news_every = std::chrono::milliseconds{200};
constexpr std::size_t page_size = 1'000;

// So many of the newest positions are read again at each look.
constexpr std::int64_t newest = 1'000;

// So many older messages are followed, and so many of the older ones looked up at each look.
constexpr std::size_t followed_max = 100'000;
constexpr std::size_t lookups_max = 500;

// What makes a message worth a new line.
using version = std::tuple<message_state, bool, int, int, int>;

// Whether nothing becomes of it any more.
bool is_over(message_state state)
{
    return is_terminal(state) && state != message_state::dead;
}

version version_of(const message_record& what)
{
    return {what.state, what.started, what.attempts, what.errors, what.redrives};
}

std::string detail_of(const message_record& what, timestamp now)
{
    switch (what.state) {
    case message_state::ready: {
        if (what.parked_for)
            return "waits for a limit of its handler";
        const auto due = what.due_at > now ? relative(what.due_at, now) : std::string{};
        if (what.errors == 0)
            return due.empty() ? due : "due " + due;
        return fmt::format("failed: {}{}", printable(what.last_error),
                           due.empty() ? due : "; again " + due);
    }
    case message_state::parked:
        return std::string(what.parked_for ? to_string(*what.parked_for) : "");
    case message_state::claimed:
        return fmt::format("by {}, attempt {}", printable(what.worker), what.attempts);
    case message_state::dead: return printable(what.last_error);
    default: return {};
    }
}

class follower {
public:
    follower(store& where, const tail_request& what, output& to)
        : where_(where), what_(what), to_(to)
    {}

    void begin()
    {
        if (what_.all)
            return;
        horizon_ = last_position();
        silent_ = true;
        look_at_newest();
        for (const auto state :
             {message_state::ready, message_state::waiting, message_state::parked,
              message_state::claimed, message_state::dead})
            remember(state);
        silent_ = false;
    }

    void look()
    {
        look_at_newest();
        look_at_older();
    }

private:
    // There is no question for it, but "is there anything behind n" is a quick one.
    std::int64_t last_position()
    {
        const auto none_behind = [&](std::int64_t position) {
            return list_messages(where_, {.after_position = position, .limit = 1}).empty();
        };
        std::int64_t low = 0;
        std::int64_t high = 1;
        while (!none_behind(high)) {
            low = high;
            high *= 2;
        }
        while (low < high) {
            const auto middle = low + (high - low) / 2;
            if (none_behind(middle))
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }

    message_filter page_after(std::int64_t position) const
    {
        return {.topic = what_.topic,
                .after_position = position,
                .limit = page_size,
                .with_payload = what_.with_payload};
    }

    void look_at_newest()
    {
        auto after = read_from();
        for (;;) {
            const auto page = list_messages(where_, page_after(after));
            for (const auto& each : page)
                see(each);
            if (!page.empty())
                after = page.back().position;
            horizon_ = std::max(horizon_, after);
            if (page.size() < page_size)
                break;
        }
        // What has ended and is not read again any more needs no memory.
        std::erase_if(seen_, [&](const auto& each) {
            return each.first <= read_from() && is_over(std::get<0>(each.second.last));
        });
    }

    void remember(message_state state)
    {
        for (std::int64_t after = 0; seen_.size() < followed_max;) {
            auto filter = page_after(after);
            filter.state = state;
            filter.with_payload = false;
            const auto page = list_messages(where_, filter);
            for (const auto& each : page)
                see(each);
            if (page.size() < page_size)
                return;
            after = page.back().position;
        }
    }

    void look_at_older()
    {
        const auto end = seen_.upper_bound(read_from());
        auto next = seen_.upper_bound(looked_up_to_);
        std::vector<std::pair<std::int64_t, message_id>> ids;
        for (; next != seen_.end() && next != end && ids.size() < lookups_max; ++next)
            ids.emplace_back(next->first, next->second.id);
        looked_up_to_ = ids.size() == lookups_max ? ids.back().first : 0;
        if (ids.empty())
            return;
        auto view = where_.read();
        for (const auto& [position, id] : ids) {
            if (const auto found = find_message(view, id))
                see(*found);
            else
                seen_.erase(position); // removed
        }
    }

    void see(const message_record& what)
    {
        const auto now_at = version_of(what);
        const auto at = seen_.find(what.position);
        if (at == seen_.end()) {
            if (seen_.size() < followed_max)
                seen_.emplace(what.position, followed{.id = what.id, .last = now_at});
        } else if (std::exchange(at->second.last, now_at) == now_at) {
            return;
        }
        if (!silent_ && (!what_.state || what_.state->includes(what)))
            print(what);
    }

    void print(const message_record& what)
    {
        const auto shown = what_.with_payload ? payload_view::shown : payload_view::hidden;
        if (to_.json())
            return to_.line(json_text(record_as_json(what, shown)));
        const auto now = where_.environment().clock->now();
        const auto state = fmt::format("{:<9}", word_of(what));
        to_.line(fmt::format("{}  {}  {}  {}{}  {}", iso_time(now).substr(11, 12),
                             to_.tinted(state, tint_of(what.state)), to_string(what.id),
                             printable(what.topic),
                             what.ordering_key.empty() ? "" : " " + printable(what.ordering_key),
                             detail_of(what, now)));
        if (what_.with_payload)
            to_.line(is_plain_text(what.payload) ? printable_lines(what.payload)
                                                 : hexadecimal(what.payload));
    }

    [[nodiscard]] std::int64_t read_from() const
    {
        return std::max<std::int64_t>(horizon_ - newest, 0);
    }

    struct followed {
        message_id id;
        version last;
    };

    store& where_;
    const tail_request& what_;
    output& to_;
    std::map<std::int64_t, followed> seen_; // by position
    std::int64_t horizon_ = 0;              // the highest position so far
    std::int64_t looked_up_to_ = 0;
    bool silent_ = false;
};

} // namespace

exit_status tail(const tail_request& what, output& to)
{
    const stop_on_signals signals;
    const auto over = signals.request().drain;
    auto where = open(what.url);
    follower following(where, what, to);
    following.begin();
    to.note("following; Ctrl-C ends it");
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    do {
        following.look();
        if (!to.finish())
            break;
        if (std::ferror(stdout) != 0)
            break; // whoever read this has left
    } while (
        !wake.wait_for(lock, over, look_for_news_every, [&] { return over.stop_requested(); }));
    return exit_status::success;
}

} // namespace posthorn::cli
