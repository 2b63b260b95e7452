// Findings in words, for all engines.
#include "store/contract/examination.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace posthorn::contract {
namespace {

severity fine_if(bool fine)
{
    return fine ? severity::ok : severity::warning;
}

} // namespace

void examination::add(severity level, std::string check, std::string detail, std::string advice)
{
    findings.push_back({level, std::move(check), std::move(detail), std::move(advice)});
}

void examination::expect_none(std::int64_t count, std::string check, std::string_view otherwise,
                              std::string advice)
{
    if (count == 0)
        add(severity::ok, std::move(check), "no fault found");
    else
        add(severity::problem, std::move(check), fmt::format("{} {}", count, otherwise),
            std::move(advice));
}

bool examination::look_at_schema(int version, const std::function<void()>& require)
{
    try {
        require();
    } catch (const error& failure) {
        add(severity::problem, "schema version", failure.what());
        return false;
    }
    add(severity::ok, "schema version", std::to_string(version));
    return true;
}

void examination::look_at_clock(std::int64_t later, std::string advice)
{
    add(fine_if(later == 0), "clock",
        later == 0
            ? "messages are not from the future"
            : fmt::format("{} of the last 1,000 messages were created later than now", later),
        later == 0 ? "" : std::move(advice));
}

void examination::look_at_work(const store_stats& stats, std::int64_t overdue_batches)
{
    add(fine_if(stats.dead == 0), "dead letters", std::to_string(stats.dead),
        stats.dead == 0 ? "" : "see `posthorn dead list`");
    add(fine_if(stats.blocked_keys == 0), "blocked keys", std::to_string(stats.blocked_keys),
        stats.blocked_keys == 0 ? "" : "retry or skip them: see `posthorn dead keys`");
    add(fine_if(overdue_batches == 0), "overdue leases", std::to_string(overdue_batches),
        overdue_batches == 0 ? ""
                             : "a worker died, and no other one has taken its messages back: start "
                               "a worker (`posthorn "
                               "work`, `posthorn serve`); each one does that");
}

} // namespace posthorn::contract
