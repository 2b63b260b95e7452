// Options and help in our words. Included by the verb tree alone: CLI11 compiles slowly.
#pragma once

#include "app/failure_settings.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::cli {

// What the help of a verb says besides its options.
struct verb_text {
    const char* name;
    const char* summary;
    const char* examples;
    const char* failure = "the store failed"; // the meaning of exit code 1
    bool needs_url = true;
};

inline std::string footer_of(const verb_text& text)
{
    return fmt::format("Examples:\n{}\n\n"
                       "Exit codes:\n"
                       "  0  success\n"
                       "  1  {}\n"
                       "  2  wrong usage, a bad URL, or a value no store accepts",
                       text.examples, text.failure);
}

// Help as CLI11 writes it, with our words, and with the verbs below `dead` in the main list.
class help_form : public CLI::Formatter {
public:
    help_form()
    {
        column_width(28);
        label("SUBCOMMAND", "VERB");
        label("OPTIONS", "options");
        label("Positionals", "Arguments");
        label("REQUIRED", "(required)");
    }

    std::string make_usage(const CLI::App* app, std::string name) const override
    {
        return "\n" + CLI::Formatter::make_usage(app, std::move(name));
    }

    std::string make_subcommand(const CLI::App* verb) const override
    {
        const auto below = verb->get_subcommands({});
        std::ostringstream text;
        for (const auto* each : below)
            CLI::detail::format_help(text, verb->get_name() + " " + each->get_name(),
                                     each->get_description(), get_column_width());
        return below.empty() ? CLI::Formatter::make_subcommand(verb) : text.str();
    }
};

// An option whose text `read` turns into a value; what it throws is told with the option's name.
template <typename Text = std::string, typename Target, typename Read>
CLI::Option* add_parsed(CLI::App& verb, const std::string& name, Target& target, Read read,
                        const std::string& help)
{
    const auto store_value = [&target, name, read](const Text& text) {
        try {
            target = read(text);
        } catch (const error& wrong) {
            throw CLI::ValidationError(name, wrong.what());
        }
    };
    return verb.add_option_function<Text>(name, store_value, help);
}

inline CLI::Option* add_duration(CLI::App& verb, const std::string& name, auto& target,
                                 const std::string& help)
{
    return add_parsed(verb, name, target, &contract::parse_duration, help)->type_name("TIME");
}

// What becomes of failed messages. Whether they can stand together is checked by the verb, which
// has all of them.
inline void add_failures(CLI::App& verb, failure_settings& into)
{
    const auto at_least_1ms = [](const std::string& text) {
        const auto length = contract::parse_duration(text);
        if (length < std::chrono::milliseconds{1})
            throw error(error_code::invalid_argument, "should be at least 1ms");
        return length;
    };
    add_parsed(verb, "--retry", into.rule, &read_retry_rule,
               "exponential (default), or persistent: no end of tries")
        ->type_name("RULE");
    verb.add_option("--attempts", into.attempts,
                    "starts before a message is dead (default 25); persistent: before waits are "
                    "all alike (default 10)")
        ->check(CLI::Range(1, 1'000'000).description(""))
        ->type_name("N");
    const auto add_wait = [&](const char* name, std::optional<duration>& wait, const char* help) {
        add_parsed(verb, name, wait, at_least_1ms, help)->type_name("TIME");
    };
    add_wait("--backoff", into.first,
             "wait so long after the first failure, then longer (default 2s)");
    add_wait("--backoff-max", into.cap, "the longest wait of exponential (default 6h)");
    add_wait("--then-every", into.then_every, "the last wait of persistent (default 1d)");
    add_parsed(verb, "--jitter", into.jitter, &read_jitter,
               "the share of each wait left to chance, from 0 to 1 (default 0.5; persistent: 0.1)")
        ->type_name("SHARE");
    add_parsed(verb, "--on-dead", into.on_dead, &read_dead_key,
               "a dead message blocks its ordering key (default), or skips")
        ->type_name("blocks|skips");
}

// A filter that is empty would select everything, and most likely a shell variable was not set.
inline CLI::Option* add_filter(CLI::App& verb, const std::string& name, std::string& target,
                               const std::string& help)
{
    const auto not_empty = [](const std::string& text) {
        return std::string(text.empty() ? "must not be empty" : "");
    };
    return verb.add_option(name, target, help)
        ->check(CLI::Validator(not_empty, ""))
        ->type_name("TEXT");
}

} // namespace posthorn::cli
