// The words of the inbox and of commands, and which names and times they may have.
#include "core/inbox.hpp"

#include "core/validation.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn {
namespace {

constexpr std::array inbox_state_names{
    std::pair{inbox_state::seen, std::string_view{"seen"}},
    std::pair{inbox_state::processing, std::string_view{"processing"}},
    std::pair{inbox_state::done, std::string_view{"done"}},
    std::pair{inbox_state::dead, std::string_view{"dead"}},
};

constexpr std::array key_state_names{
    std::pair{key_state::in_progress, std::string_view{"in-progress"}},
    std::pair{key_state::completed, std::string_view{"completed"}},
    std::pair{key_state::failed, std::string_view{"failed"}},
};

template <typename Names, typename State>
std::string_view name_in(const Names& names, State state) noexcept
{
    const auto* found = std::ranges::find(names, state, &Names::value_type::first);
    return found == names.end() ? "unknown" : found->second;
}

template <typename State, typename Names>
std::optional<State> state_in(const Names& names, std::string_view text) noexcept
{
    const auto* found = std::ranges::find(names, text, &Names::value_type::second);
    return found == names.end() ? std::nullopt : std::optional{found->first};
}

void check_name(std::string_view what, std::string_view text, std::size_t bytes_max)
{
    if (text.empty() || text.size() > bytes_max)
        throw error(error_code::invalid_argument,
                    fmt::format("{} has {} bytes; it needs 1 to {}", what, text.size(), bytes_max));
    if (!core::is_text(text))
        throw error(error_code::invalid_argument,
                    fmt::format("{} is not UTF-8, or contains a NUL character", what));
}

void check_span(std::string_view what, duration length, duration least)
{
    if (length < least || length > limits::span_max)
        throw error(error_code::invalid_argument,
                    fmt::format("{} must be {} and at most a hundred years", what,
                                least > duration::zero() ? "positive" : "zero or positive"));
}

} // namespace

std::string_view to_string(inbox_state state) noexcept
{
    return name_in(inbox_state_names, state);
}

std::optional<inbox_state> parse_inbox_state(std::string_view text) noexcept
{
    return state_in<inbox_state>(inbox_state_names, text);
}

std::string_view to_string(inbox_answer answer) noexcept
{
    switch (answer) {
    case inbox_answer::added: return "added";
    case inbox_answer::replaced: return "replaced";
    case inbox_answer::held: return "held";
    case inbox_answer::known: return "known";
    }
    return "unknown";
}

std::string_view to_string(mark_answer answer) noexcept
{
    switch (answer) {
    case mark_answer::marked: return "marked";
    case mark_answer::known: return "known";
    case mark_answer::queued: return "queued";
    }
    return "unknown";
}

std::string_view to_string(key_state state) noexcept
{
    return name_in(key_state_names, state);
}

std::optional<key_state> parse_key_state(std::string_view text) noexcept
{
    return state_in<key_state>(key_state_names, text);
}

std::string_view to_string(command_answer answer) noexcept
{
    switch (answer) {
    case command_answer::executed: return "executed";
    case command_answer::replayed: return "replayed";
    case command_answer::in_progress: return "in-progress";
    case command_answer::mismatch: return "mismatch";
    case command_answer::lost: return "lost";
    case command_answer::stopped: return "stopped";
    }
    return "unknown";
}

std::string inbox_topic(std::string_view topic)
{
    return std::string(core::inbox_prefix) += topic;
}

namespace core {

void check_inbound(const inbound& from, std::string_view content_hash)
{
    check_name("the source", from.source, limits::key_bytes_max);
    check_name("the id at the source", from.id, limits::key_bytes_max);
    check_key("the content hash", content_hash);
}

message from_outside(const message& what)
{
    check_name("the topic of a message from outside", what.topic,
               limits::topic_bytes_max - inbox_prefix.size());
    return {.topic = inbox_topic(what.topic), .payload = what.payload};
}

void check_command(const command_key& which)
{
    constexpr std::size_t command_bytes_max = 500;
    constexpr std::size_t key_bytes_max = 200;
    check_name("the command's name", which.command, command_bytes_max);
    check_name("the command's key", which.key, key_bytes_max);
    check_key("the fingerprint", which.fingerprint);
    check_span("the lock time", which.lock, duration{1});
    check_span("the time to keep the result", which.keep, duration{1});
    check_span("the time to wait", which.wait, duration::zero());
}

} // namespace core
} // namespace posthorn
