// The kernel makes an appending write of one line atomic among writers; no lock is needed that a
// killed process could keep.
#include "checker/history.hpp"

#include "checker/event_json.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace posthorn::checker {

history_writer::history_writer(const std::filesystem::path& file, std::string by,
                               std::shared_ptr<const clock> clock)
    : file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)),
      by_(std::move(by)),
      clock_(std::move(clock))
{
    if (file_ < 0)
        throw std::system_error(errno, std::generic_category(), file.string());
}

history_writer::~history_writer()
{
    close(file_);
}

void history_writer::record(happening what, std::optional<timestamp> asked_at) const
{
    event whole;
    whole.at = now();
    whole.asked_at = std::min(asked_at.value_or(whole.at), whole.at); // the clock may have jumped
    whole.by = by_;
    whole.what = std::move(what);
    const auto line = to_line(whole) + "\n";
    const auto written = write(file_, line.data(), line.size());
    if (written != static_cast<ssize_t>(line.size()))
        throw std::system_error(written < 0 ? errno : ENOSPC, std::generic_category(),
                                "writing the history");
}

bool for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view)>& use)
{
    std::ifstream from(file, std::ios::binary);
    if (!from)
        throw error(error_code::not_found, fmt::format("{} cannot be read", file.string()));
    std::string line;
    for (std::size_t number = 1; std::getline(from, line); ++number) {
        if (from.eof())
            return true; // no newline: its writer did not live to finish it
        try {
            use(line);
        } catch (const error& wrong) {
            throw error(wrong.code(),
                        fmt::format("{}:{}: {}", file.string(), number, wrong.what()));
        }
    }
    return false;
}

history read_history(std::span<const std::filesystem::path> files)
{
    history result;
    for (const auto& file : files) {
        const bool torn = for_each_line(file, [&](std::string_view line) {
            result.events.push_back(parse_event(line));
            result.events.back().sequence = result.events.size();
        });
        result.torn_lines += torn ? 1 : 0;
    }
    return result;
}

} // namespace posthorn::checker
