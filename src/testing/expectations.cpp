// Looking at a store, and explaining what differs.
#include <posthorn/testing/expectations.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace posthorn::testing {
namespace {

constexpr std::size_t told_max = 10; ///< examples in one explanation
constexpr std::size_t quoted_max = 200;

std::vector<message_record> all_that_match(store& where, message_filter filter)
{
    std::vector<message_record> all;
    for (;;) {
        auto page = list_messages(where, filter);
        if (page.empty())
            return all;
        filter.after_position = page.back().position;
        std::ranges::move(page, std::back_inserter(all));
    }
}

std::string quoted(const std::string& payload)
{
    return payload.size() <= quoted_max
               ? fmt::format("'{}'", payload)
               : fmt::format("'{}…' ({} bytes)", payload.substr(0, quoted_max), payload.size());
}

std::string described(const message_record& which)
{
    auto text =
        fmt::format("{} {} is {}", which.topic, to_string(which.id), to_string(which.state));
    if (which.parked_for)
        text += fmt::format(" ({})", to_string(*which.parked_for));
    if (which.attempts > 0)
        text += fmt::format(", attempts: {}", which.attempts);
    if (!which.last_error.empty())
        text += fmt::format(", last error: {}", which.last_error);
    return text;
}

std::string listed(const std::vector<message_record>& all)
{
    std::string text;
    for (std::size_t i = 0; i < std::min(all.size(), told_max); ++i)
        text += "\n  " + described(all[i]);
    if (all.size() > told_max)
        text += fmt::format("\n  … and {} more", all.size() - told_max);
    return text;
}

verdict none_of(const std::vector<message_record>& unwanted, std::string_view what)
{
    if (unwanted.empty())
        return verdict::yes();
    return verdict::no(fmt::format("{} {}:{}", unwanted.size(), what, listed(unwanted)));
}

} // namespace

std::vector<message_record> messages_of(store& where, std::string_view topic)
{
    return all_that_match(where,
                          {.topic = std::string(topic), .limit = 1'000, .with_payload = true});
}

verdict was_enqueued(store& where, std::string_view topic, const std::vector<std::string>& payloads)
{
    const auto found = messages_of(where, topic);
    std::string differs;
    for (std::size_t i = 0; i < std::max(found.size(), payloads.size()); ++i) {
        if (i < found.size() && i < payloads.size() && found[i].payload == payloads[i])
            continue;
        differs += fmt::format("\n  number {}: expected {}, found {}", i + 1,
                               i < payloads.size() ? quoted(payloads[i]) : "none",
                               i < found.size() ? quoted(found[i].payload) : "none");
    }
    if (differs.empty())
        return verdict::yes();
    return verdict::no(fmt::format("topic '{}': expected {} messages, found {}:{}", topic,
                                   payloads.size(), found.size(), differs));
}

verdict nothing_was_enqueued(store& where, std::string_view topic)
{
    return none_of(messages_of(where, topic), "were enqueued");
}

verdict is_in_state(store& where, message_id id, message_state expected)
{
    const auto found = find_message(where, id);
    if (!found)
        return verdict::no(fmt::format("there is no message {}", to_string(id)));
    if (found->state == expected)
        return verdict::yes();
    return verdict::no(
        fmt::format("expected it to be {}: {}", to_string(expected), described(*found)));
}

verdict are_in_state(store& where, message_state expected, std::size_t count,
                     std::string_view topic)
{
    const auto all = messages_of(where, topic);
    const auto found = std::ranges::count(all, expected, &message_record::state);
    if (static_cast<std::size_t>(found) == count)
        return verdict::yes();
    return verdict::no(fmt::format("expected {} messages to be {}, found {}; there are:{}", count,
                                   to_string(expected), found, listed(all)));
}

verdict everything_is_done(store& where)
{
    auto all = messages_of(where);
    std::erase_if(all, [](const auto& each) { return each.state == message_state::done; });
    return none_of(all, "not done");
}

verdict nothing_is_dead(store& where)
{
    return none_of(all_that_match(where, {.state = message_state::dead}), "dead");
}

verdict nothing_is_parked(store& where)
{
    return none_of(all_that_match(where, {.state = message_state::parked}), "parked");
}

} // namespace posthorn::testing
