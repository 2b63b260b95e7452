// Lines on standard error, each written at once, so that those of several threads do not mix.
#include "app/daemon/journal.hpp"

#include "app/cli/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace posthorn::daemon {
namespace {

using nlohmann::ordered_json;

std::string_view word_of(log_level level)
{
    constexpr std::array<std::string_view, 4> words{"debug", "info", "warning", "error"};
    return words.at(static_cast<std::size_t>(level));
}

std::string_view colour_of(log_level level)
{
    constexpr std::array<std::string_view, 4> codes{"2", "32", "33", "31"};
    return codes.at(static_cast<std::size_t>(level));
}

bool terminal_takes_colours()
{
    // NOLINTBEGIN(concurrency-mt-unsafe): read before the first thread starts
    const char* refusal = std::getenv("NO_COLOR");
    const char* terminal = std::getenv("TERM");
    // NOLINTEND(concurrency-mt-unsafe)
    return ::isatty(STDERR_FILENO) == 1 && (refusal == nullptr || *refusal == '\0') &&
           (terminal == nullptr || std::string_view{terminal} != "dumb");
}

// Quoted where a reader could take it for something else. What is quoted is escaped once, as in
// JSON; what a terminal would obey is written as its number.
std::string as_word(const std::string& text)
{
    const bool is_plain = cli::printable(text) == text;
    if (is_plain && !text.empty() && text.find_first_of(" \"=\\") == std::string::npos)
        return text;
    return ordered_json(text).dump(-1, ' ', !is_plain, ordered_json::error_handler_t::replace);
}

} // namespace

journal::journal(const configuration& first) : coloured_(terminal_takes_colours())
{
    follow(first);
}

void journal::follow(const configuration& next)
{
    const std::lock_guard lock(mutex_);
    form_ = next.daemon.log;
    level_ = next.daemon.level;
    for (const auto& each : next.secrets)
        secrets_.add(each);
}

void journal::hide(const std::vector<std::string>& secrets)
{
    const std::lock_guard lock(mutex_);
    for (const auto& each : secrets)
        secrets_.add(each);
}

bool journal::tells(log_level level) const
{
    const std::lock_guard lock(mutex_);
    return level >= level_;
}

void journal::write(log_level level, std::string_view what, std::initializer_list<fact> facts)
{
    const std::lock_guard lock(mutex_);
    if (level < level_)
        return;
    put({world_.clock->now(), level, what}, facts);
}

std::string journal::as_json(const event& which, some_facts facts) const
{
    ordered_json line{{"time", cli::iso_time(which.at)},
                      {"level", word_of(which.level)},
                      {"message", secrets_.cleaned(std::string(which.what))}};
    for (const auto& each : facts) {
        auto& shown = line[std::string(each.name)];
        if (const auto* number = std::get_if<std::int64_t>(&each.value))
            shown = *number;
        else
            shown = secrets_.cleaned(std::get<std::string>(each.value));
    }
    return cli::json_text(line) + "\n";
}

std::string journal::as_text(const event& which, some_facts facts) const
{
    const auto time = cli::iso_time(which.at);
    const auto what = cli::printable(secrets_.cleaned(std::string(which.what)));
    auto line = coloured_ ? fmt::format("\x1b[2m{}\x1b[0m \x1b[{}m{:<7}\x1b[0m {}", time,
                                        colour_of(which.level), word_of(which.level), what)
                          : fmt::format("{} {:<7} {}", time, word_of(which.level), what);
    for (const auto& each : facts) {
        const auto* number = std::get_if<std::int64_t>(&each.value);
        line += fmt::format(" {}={}", each.name,
                            number != nullptr
                                ? fmt::format("{}", *number)
                                : as_word(secrets_.cleaned(std::get<std::string>(each.value))));
    }
    return line + "\n";
}

void journal::pass(std::string_view text, const delivery_view& which)
{
    const std::lock_guard lock(mutex_);
    while (!text.empty()) {
        const auto end = text.find('\n');
        const auto line = text.substr(0, end);
        if (!line.empty())
            put({world_.clock->now(), log_level::info, "output of a handler"},
                {{"id", to_string(which.id())},
                 {"topic", which.topic()},
                 {"store", which.store()},
                 {"output", line}});
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
}

std::string journal::without_secrets(std::string text) const
{
    const std::lock_guard lock(mutex_);
    return secrets_.cleaned(std::move(text));
}

std::size_t journal::secret_bytes_max() const
{
    const std::lock_guard lock(mutex_);
    return secrets_.bytes_max();
}

line_counts journal::lines() const
{
    const std::lock_guard lock(mutex_);
    return lines_;
}

log_sink journal::sink()
{
    return [self = shared_from_this()](log_level level, std::string_view line) {
        self->write(level, line);
    };
}

// What cannot be said on standard error cannot be said anywhere.
void journal::put(const event& which, some_facts facts)
{
    ++lines_.at(static_cast<std::size_t>(which.level));
    const auto line = form_ == log_form::json ? as_json(which, facts) : as_text(which, facts);
    static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
    static_cast<void>(std::fflush(stderr));
}

} // namespace posthorn::daemon
