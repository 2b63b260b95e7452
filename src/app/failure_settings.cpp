// From settings to rules.
#include "app/failure_settings.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace posthorn {
namespace {

bool is_persistent(const failure_settings& what)
{
    return what.rule ? *what.rule == "persistent" : what.then_every.has_value();
}

exponential_retry exponential_of(const failure_settings& what)
{
    exponential_retry result;
    result.first = what.first.value_or(result.first);
    result.cap = what.cap.value_or(std::max(result.cap, result.first));
    result.attempts_max = what.attempts.value_or(result.attempts_max);
    result.jitter = what.jitter.value_or(result.jitter);
    return result;
}

persistent_retry persistent_of(const failure_settings& what)
{
    persistent_retry result;
    result.first = what.first.value_or(result.first);
    result.failures_max = what.attempts.value_or(result.failures_max);
    result.then_every = what.then_every.value_or(result.then_every);
    result.jitter = what.jitter.value_or(result.jitter);
    return result;
}

} // namespace

std::optional<settings_clash> clash_in(const failure_settings& what)
{
    if (is_persistent(what) && what.cap)
        return settings_clash{"cap", "belongs to the rule exponential; persistent waits grow until "
                                     "they are all alike"};
    if (!is_persistent(what) && what.then_every)
        return settings_clash{"then_every", "belongs to the rule persistent; exponential waits "
                                            "grow to a longest one"};
    if (what.cap && *what.cap < exponential_of(what).first)
        return settings_clash{"cap", "is shorter than the first wait"};
    return std::nullopt;
}

retry_policy policy_of(const failure_settings& what)
{
    return is_persistent(what) ? retry_policy(persistent_of(what))
                               : retry_policy(exponential_of(what));
}

failure_rules rules_of(const failure_settings& what)
{
    failure_rules result{.on_dead = what.on_dead};
    if (what.says_when())
        result.retry = policy_of(what);
    return result;
}

outbox_options outbox_for(const failure_settings& options)
{
    if (const auto clash = clash_in(options))
        throw error(error_code::invalid_argument,
                    fmt::format("{}: {}", clash->key == "cap" ? "--backoff-max" : "--then-every",
                                clash->message));
    return {.retries = {.fallback = policy_of(options)},
            .on_dead = options.on_dead.value_or(dead_key::blocks)};
}

dead_key read_dead_key(std::string_view text)
{
    const auto found = std::ranges::find(dead_key_names, text);
    if (found == dead_key_names.end())
        throw error(error_code::invalid_argument,
                    fmt::format("'{}' is unknown; a dead message blocks or skips its key", text));
    return found == dead_key_names.begin() ? dead_key::blocks : dead_key::skips;
}

std::string read_retry_rule(std::string_view text)
{
    if (std::ranges::find(retry_rule_names, text) == retry_rule_names.end())
        throw error(error_code::invalid_argument,
                    fmt::format("'{}' is no rule: there are exponential, which gives up, and "
                                "persistent, which does not",
                                text));
    return std::string(text);
}

double read_jitter(std::string_view text)
{
    double share = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), share);
    if (failed != std::errc{} || end != text.data() + text.size() || !(share >= 0 && share <= 1))
        throw error(error_code::invalid_argument,
                    fmt::format("'{}' is no share: it is a number from 0 to 1, such as 0.5", text));
    return share;
}

} // namespace posthorn
