// Tracing: a bounded walk over the messages, window by window, and a tree of what it finds.
#include "core/validation.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/trace.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace posthorn {
namespace {

// So many positions are looked at in one short view.
constexpr std::int64_t window = 20'000;

// Numbers and clocks of several sessions may be a little out of step.
constexpr std::int64_t positions_before = 10'000;
constexpr auto time_before = std::chrono::minutes{1};
constexpr auto look_back = std::chrono::hours{24};

// When a version 7 UUID was made.
std::optional<timestamp> time_in(const uuid& value)
{
    if (value.bytes[6] >> 4U != 7)
        return std::nullopt;
    std::int64_t millis = 0;
    for (std::size_t i = 0; i < 6; ++i)
        millis = millis * 256 + value.bytes[i];
    return timestamp{std::chrono::milliseconds{millis}};
}

class walk {
public:
    walk(store& where, std::string_view correlation, const trace_options& how)
        : where_(where), how_(how)
    {
        result_.correlation_id = correlation;
    }

    message_trace run()
    {
        const auto last = last_position();
        auto after = begin(last);
        const auto total = std::max<std::int64_t>(last - after, 0);
        const auto from = after;
        while (after < last && may_go_on(after - from, total)) {
            add(list({.correlation_id = result_.correlation_id,
                      .after_position = after,
                      .before_position = after + window + 1,
                      .limit = how_.limit + 1}));
            if (found_.size() > how_.limit) {
                found_.resize(how_.limit);
                result_.complete = false;
                break;
            }
            // Messages that were removed leave gaps, which may be wide.
            const auto behind = first_behind(after + window);
            after = behind ? behind->position - 1 : last;
        }
        result_.messages = arrange_by_cause(std::move(found_));
        return std::move(result_);
    }

private:
    std::vector<message_record> list(const message_filter& filter)
    {
        return list_messages(where_, filter);
    }

    bool may_go_on(std::int64_t done, std::int64_t total)
    {
        if (!how_.progress || how_.progress(done, total))
            return true;
        result_.complete = false;
        return false;
    }

    // The first one may have been found before, by its id.
    void add(std::vector<message_record> page)
    {
        for (auto& each : page)
            if (found_.empty() || found_.front().id != each.id)
                found_.push_back(std::move(each));
    }

    std::optional<message_record> first_behind(std::int64_t position)
    {
        auto page = list({.after_position = position, .limit = 1});
        return page.empty() ? std::nullopt : std::optional{std::move(page.front())};
    }

    // There is no question for it, but "is there anything behind n" is a quick one.
    std::int64_t last_position()
    {
        std::int64_t low = 0;
        std::int64_t high = 1;
        while (const auto behind = first_behind(high)) {
            low = behind->position;
            high = low * 2;
        }
        while (low < high) {
            const auto middle = low + (high - low) / 2;
            if (const auto behind = first_behind(middle))
                low = behind->position;
            else
                high = middle;
        }
        return low;
    }

    // The position behind which everything was enqueued at this time or later, about.
    std::int64_t position_before(timestamp when, std::int64_t last)
    {
        std::int64_t low = 0;
        std::int64_t high = last;
        while (low < high) {
            const auto middle = low + (high - low) / 2;
            const auto behind = first_behind(middle);
            if (!behind || behind->created_at >= when)
                high = middle;
            else
                low = behind->position;
        }
        return low;
    }

    // Where to begin looking.
    std::int64_t begin(std::int64_t last)
    {
        auto first = named_message();
        // The id of any of its messages stands for a correlation, too.
        if (first && !first->correlation_id.empty() &&
            first->correlation_id != result_.correlation_id) {
            result_.correlation_id = first->correlation_id;
            first = named_message();
        }
        if (first) {
            found_.push_back(*first); // which may say nothing of its correlation
            result_.since = first->created_at;
            if (!how_.since)
                return std::max<std::int64_t>(first->position - positions_before, 0);
        }
        const auto id = message_id::parse(result_.correlation_id);
        const auto carried = id ? time_in(id->value()) : std::nullopt;
        const auto now = where_.environment().clock->now();
        result_.since = how_.since ? *how_.since
                        : carried  ? *carried - time_before
                                   : now - look_back;
        return std::max<std::int64_t>(position_before(*result_.since, last) - positions_before, 0);
    }

    std::optional<message_record> named_message()
    {
        const auto id = message_id::parse(result_.correlation_id);
        if (!id || id->is_nil())
            return std::nullopt;
        auto found = find_message(where_, *id);
        if (found)
            found->payload.clear();
        return found;
    }

    store& where_;
    const trace_options& how_;
    message_trace result_;
    std::vector<message_record> found_;
};

// Who caused whom, by index.
struct family {
    explicit family(const std::vector<message_record>& messages)
        : parents(messages.size()), children(messages.size())
    {
        std::unordered_map<message_id, std::size_t> places;
        for (std::size_t i = 0; i < messages.size(); ++i)
            places.emplace(messages[i].id, i);
        for (std::size_t i = 0; i < messages.size(); ++i) {
            const auto cause = message_id::parse(messages[i].causation_id);
            const auto found = cause ? places.find(*cause) : places.end();
            if (found == places.end() || found->second == i)
                continue;
            parents[i] = found->second;
            children[found->second].push_back(i);
        }
    }

    std::vector<std::optional<std::size_t>> parents;
    std::vector<std::vector<std::size_t>> children;
};

} // namespace

std::vector<traced_message> arrange_by_cause(std::vector<message_record> messages)
{
    std::ranges::sort(messages, {}, &message_record::position);
    const family of(messages);
    std::vector<traced_message> result;
    result.reserve(messages.size());
    std::vector<bool> placed(messages.size(), false);
    struct step {
        std::size_t which;
        std::optional<std::size_t> below; // in the result
        std::size_t depth;
    };
    // A chain of causes may be long: no recursion.
    const auto place_all_below = [&](std::size_t root) {
        std::vector<step> ahead{{root, std::nullopt, 0}};
        while (!ahead.empty()) {
            const auto next = ahead.back();
            ahead.pop_back();
            if (placed[next.which])
                continue;
            placed[next.which] = true;
            const auto place = result.size();
            result.push_back({std::move(messages[next.which]), next.below, next.depth});
            const auto& children = of.children[next.which];
            for (auto each = children.rbegin(); each != children.rend(); ++each)
                ahead.push_back({*each, place, next.depth + 1});
        }
    };
    for (std::size_t i = 0; i < placed.size(); ++i)
        if (!of.parents[i])
            place_all_below(i);
    for (std::size_t i = 0; i < placed.size(); ++i)
        if (!placed[i]) // part of a circle
            place_all_below(i);
    return result;
}

message_trace trace_messages(store& where, std::string_view correlation_id,
                             const trace_options& how)
{
    if (correlation_id.empty() || how.limit == 0)
        throw error(error_code::invalid_argument,
                    "a trace needs a correlation id, and a limit of at least 1");
    core::check_key("the correlation id", correlation_id);
    return walk(where, correlation_id, how).run();
}

} // namespace posthorn
