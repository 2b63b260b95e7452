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

// Quoted where a reader could take it for several words.
std::string as_word(const std::string& text)
{
    const auto shown = cli::printable(text);
    if (!shown.empty() && shown.find_first_of(" \"=") == std::string::npos)
        return shown;
    return ordered_json(shown).dump();
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
    put(form_ == log_form::json ? as_json(level, what, facts) : as_text(level, what, facts));
}

std::string journal::as_json(log_level level, std::string_view what,
                             std::initializer_list<fact> facts) const
{
    ordered_json line{{"time", cli::iso_time(world_.clock->now())},
                      {"level", word_of(level)},
                      {"message", secrets_.cleaned(std::string(what))}};
    for (const auto& each : facts)
        line[std::string(each.name)] = secrets_.cleaned(each.value);
    return cli::json_text(line) + "\n";
}

std::string journal::as_text(log_level level, std::string_view what,
                             std::initializer_list<fact> facts) const
{
    auto line =
        coloured_ ? fmt::format("\x1b[2m{}\x1b[0m \x1b[{}m{:<7}\x1b[0m {}",
                                cli::iso_time(world_.clock->now()), colour_of(level),
                                word_of(level), cli::printable(secrets_.cleaned(std::string(what))))
                  : fmt::format("{} {:<7} {}", cli::iso_time(world_.clock->now()), word_of(level),
                                cli::printable(secrets_.cleaned(std::string(what))));
    for (const auto& each : facts)
        line += fmt::format(" {}={}", each.name, as_word(secrets_.cleaned(each.value)));
    return line + "\n";
}

void journal::pass(std::string_view text, const delivery_view& which)
{
    if (text.empty())
        return;
    const std::lock_guard lock(mutex_);
    if (form_ == log_form::text)
        return put(secrets_.cleaned(std::string(text)));
    while (!text.empty()) {
        const auto end = text.find('\n');
        const auto line = text.substr(0, end);
        if (!line.empty())
            put(as_json(log_level::info, "output of a handler",
                        {{"id", to_string(which.id())},
                         {"topic", which.topic()},
                         {"store", which.store()},
                         {"output", std::string(line)}}));
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

log_sink journal::sink()
{
    return [self = shared_from_this()](log_level level, std::string_view line) {
        self->write(level, line);
    };
}

// What cannot be said on standard error cannot be said anywhere.
void journal::put(std::string_view text)
{
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
    static_cast<void>(std::fflush(stderr));
}

} // namespace posthorn::daemon
