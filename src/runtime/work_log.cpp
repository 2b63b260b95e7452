// A failed attempt is a warning, a death an error, a start and an end are information, and the rest
// is for those who look closely.
#include "runtime/work_log.hpp"

#include "core/one_line.hpp"
#include <posthorn/id.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace posthorn::runtime {
namespace {

constexpr std::size_t error_bytes_max = 500;

log_level level_of(settled_as answer)
{
    switch (answer) {
    case settled_as::dead: return log_level::error;
    case settled_as::retrying:
    case settled_as::lost: return log_level::warning;
    case settled_as::done:
    case settled_as::released:
    case settled_as::parked: break;
    }
    return log_level::debug;
}

std::string_view words_for(settled_as answer)
{
    switch (answer) {
    case settled_as::dead: return "is dead";
    case settled_as::retrying: return "failed and is tried again later";
    case settled_as::lost:
        return "was handled, but another worker has taken it over: this outcome does not count";
    case settled_as::done: return "is done";
    case settled_as::released: return "is given back unharmed";
    case settled_as::parked: return "is parked";
    }
    return "is settled";
}

log_level level_of(const run_options& how)
{
    return how.until_empty ? log_level::debug : log_level::info;
}

} // namespace

void work_log::begins(const run_options& how) const
{
    if (takes(level_of(how)))
        to_(level_of(how), fmt::format("worker '{}' begins, with up to {} handlers at once",
                                       core::on_one_line(of_.name), of_.concurrency));
}

void work_log::ended(const run_options& how, const run_report& report) const
{
    if (takes(level_of(how)))
        to_(level_of(how),
            fmt::format("worker '{}' has ended: {} done, {} to try again, {} dead, {} given back, "
                        "{} parked, {} lost, {} left running",
                        core::on_one_line(of_.name), report.done, report.retrying, report.dead,
                        report.released, report.parked, report.lost, report.left_running));
}

void work_log::failed(const std::exception& why) const
{
    if (takes(log_level::error))
        to_(log_level::error, fmt::format("worker '{}' has ended: {}", core::on_one_line(of_.name),
                                          core::on_one_line(why.what())));
}

void work_log::settled(const running_delivery& which, const outcome& said, settled_as answer) const
{
    const auto level = level_of(answer);
    if (!takes(level))
        return;
    const auto& message = which.message;
    auto line = fmt::format("message {} (topic '{}', attempt {}", to_string(message.receipt.id),
                            core::on_one_line(message.topic), message.attempt);
    if (!which.store.empty())
        line += fmt::format(", store '{}'", core::on_one_line(which.store));
    line += fmt::format(") {}", words_for(answer));
    if (level != log_level::debug && !said.error.empty())
        line += ": " + core::on_one_line(said.error, error_bytes_max);
    to_(level, line);
}

} // namespace posthorn::runtime
