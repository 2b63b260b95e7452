// Registration refuses what would be ambiguous; finding is then simple.
#include "runtime/handler_table.hpp"

#include <posthorn/error.hpp>
#include <posthorn/message.hpp>

#include <fmt/format.h>

#include <utility>

namespace posthorn::runtime {
namespace {

void check(const handler_options& how)
{
    if ((how.per_key > 0) != static_cast<bool>(how.key))
        throw error(error_code::invalid_argument,
                    "a limit per key needs both per_key and a function that says the key");
    if (how.timeout && *how.timeout <= duration::zero())
        throw error(error_code::invalid_argument, "the time-out must be longer than zero");
}

void check_pattern(std::string_view pattern)
{
    if (pattern.empty() || pattern.size() > limits::topic_bytes_max)
        throw error(error_code::invalid_argument,
                    fmt::format("the pattern '{}' must have 1 to {} bytes", pattern,
                                limits::topic_bytes_max));
    if (const auto star = pattern.find('*');
        star != std::string_view::npos && star != pattern.size() - 1)
        throw error(error_code::invalid_argument,
                    fmt::format("the pattern '{}' has a '*' before its end; use handle_if for more "
                                "than \"starts with\"",
                                pattern));
}

} // namespace

void handler_table::add(const std::vector<std::string>& patterns, const any_handler& handler,
                        const handler_options& how)
{
    check(how);
    const auto number = ++registrations_;
    has_failure_rules_ = has_failure_rules_ || !how.failures.empty();
    for (const auto& pattern : patterns)
        add_one(pattern,
                {.pattern = pattern, .handler = handler, .options = how, .registration = number});
}

void handler_table::add_one(std::string_view pattern, route to)
{
    check_pattern(pattern);
    const bool wildcard = pattern.ends_with('*');
    auto& table = wildcard ? by_prefix_ : exact_;
    const auto key = wildcard ? pattern.substr(0, pattern.size() - 1) : pattern;
    if (!table.try_emplace(std::string(key), std::move(to)).second)
        throw error(error_code::invalid_argument,
                    fmt::format("'{}' has a handler already; a topic can have only one", pattern));
}

void handler_table::add_if(std::function<bool(std::string_view)> accepts, any_handler handler,
                           const handler_options& how)
{
    check(how);
    if (!accepts)
        throw error(error_code::invalid_argument, "the predicate is empty");
    has_failure_rules_ = has_failure_rules_ || !how.failures.empty();
    by_predicate_.push_back({std::move(accepts),
                             {.pattern = "a predicate",
                              .handler = std::move(handler),
                              .options = how,
                              .registration = ++registrations_}});
}

void handler_table::add_built_in(std::string_view topic, any_handler handler)
{
    built_in_.try_emplace(
        std::string(topic),
        route{.pattern = std::string(topic), .handler = std::move(handler), .options = {}});
}

const route* handler_table::find(std::string_view topic) const
{
    if (const auto at = exact_.find(topic); at != exact_.end())
        return &at->second;
    if (const auto at = built_in_.find(topic); at != built_in_.end())
        return &at->second;
    for (auto length = topic.size() + 1; length-- > 0 && !by_prefix_.empty();)
        if (const auto at = by_prefix_.find(topic.substr(0, length)); at != by_prefix_.end())
            return &at->second;
    for (const auto& each : by_predicate_)
        if (each.accepts(topic))
            return &each.to;
    return nullptr;
}

handler_table::topics handler_table::handled() const
{
    topics result;
    for (const auto* table : {&exact_, &built_in_})
        for (const auto& [topic, to] : *table)
            result.exact.push_back(topic);
    for (const auto& [prefix, to] : by_prefix_)
        result.prefixes.push_back(prefix);
    if (!by_predicate_.empty())
        result.prefixes.emplace_back();
    return result;
}

bool handler_table::empty() const noexcept
{
    return exact_.empty() && by_prefix_.empty() && by_predicate_.empty();
}

} // namespace posthorn::runtime
