// Verbs that look after a store as a whole: init, migrate, doctor, stats, clean.
#include "app/cli/state_words.hpp"
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/messages.hpp>
#include <posthorn/pauses.hpp>
#include <posthorn/retention.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

std::string in_words(const migration_report& report)
{
    const auto applied = fmt::format("{}", fmt::join(report.applied, ", "));
    if (report.applied.empty())
        return fmt::format("nothing to do: the tables are up to date (version {})",
                           report.version_after);
    if (report.version_before == 0)
        return fmt::format("created the tables, version {} ({})", report.version_after, applied);
    return fmt::format("updated the tables from version {} to {} ({})", report.version_before,
                       report.version_after, applied);
}

exit_status bring_up_to_date(const std::string& url, output& to)
{
    const auto report = posthorn::migrate(url);
    to.answer({{"version_before", report.version_before},
               {"version_after", report.version_after},
               {"applied", report.applied}},
              in_words(report));
    return exit_status::success;
}

tint tint_of_level(severity level) noexcept
{
    switch (level) {
    case severity::ok: return tint::green;
    case severity::warning: return tint::yellow;
    case severity::problem: return tint::red;
    }
    return tint::none;
}

std::size_t count_of(const std::vector<finding>& findings, severity level)
{
    return static_cast<std::size_t>(std::ranges::count(findings, level, &finding::level));
}

ordered_json as_json(const std::vector<finding>& findings)
{
    auto list = ordered_json::array();
    for (const auto& each : findings)
        list.push_back(
            {{"level", to_string(each.level)},
             {"check", each.check},
             {"detail", each.detail},
             {"advice", each.advice.empty() ? ordered_json() : ordered_json(each.advice)}});
    return {{"problems", count_of(findings, severity::problem)},
            {"warnings", count_of(findings, severity::warning)},
            {"findings", std::move(list)}};
}

void print_findings(const std::vector<finding>& findings, output& to)
{
    constexpr std::string_view indent = "         ";
    for (const auto& each : findings) {
        const auto mark = fmt::format("{:<{}}", to_string(each.level), indent.size());
        to.line(fmt::format("{}{}: {}", to.tinted(mark, tint_of_level(each.level)), each.check,
                            printable(each.detail)));
        if (!each.advice.empty())
            to.line(fmt::format("{}→ {}", indent, each.advice));
    }
    to.line(fmt::format("\n{}, {}", counted(count_of(findings, severity::problem), "problem"),
                        counted(count_of(findings, severity::warning), "warning")));
}

ordered_json as_json(const std::vector<pause_record>& pauses)
{
    auto list = ordered_json::array();
    for (const auto& each : pauses)
        list.push_back({{"topic", each.topic.empty() ? ordered_json() : ordered_json(each.topic)},
                        {"since", iso_time(each.since)}});
    return list;
}

ordered_json as_json(const store_stats& stats, const std::vector<pause_record>& pauses)
{
    ordered_json oldest;
    if (stats.oldest_ready)
        oldest = std::chrono::duration<double>(*stats.oldest_ready).count();
    return {{"ready", stats.ready},
            {"delayed", delayed_only(stats)},
            {"retrying", stats.retrying},
            {"waiting", stats.waiting},
            {"parked", stats.parked},
            {"claimed", stats.claimed},
            {"done", stats.done},
            {"dead", stats.dead},
            {"cancelled", stats.cancelled},
            {"expired", stats.expired},
            {"blocked_keys", stats.blocked_keys},
            {"oldest_ready_seconds", oldest},
            {"exact", stats.exact},
            {"pauses", as_json(pauses)}};
}

void print_pauses(const std::vector<pause_record>& pauses, timestamp now, output& to)
{
    for (const auto& each : pauses)
        to.line(to.tinted(
            fmt::format("paused: {}, {}",
                        each.topic.empty() ? std::string("everything") : printable(each.topic),
                        relative(each.since, now)),
            tint::yellow));
}

void print_stats(const store_stats& stats, output& to)
{
    table rows({{"STATE"}, {"MESSAGES", column::side::right}, {"MEANING", column::side::left, 60}});
    const auto add = [&](const char* state, std::int64_t count, bool exact,
                         const std::string& meaning, tint colour = tint::none) {
        rows.add({{state},
                  {fmt::format("{}{}", exact ? "" : "~", count), count > 0 ? colour : tint::none},
                  {meaning, tint::dim}});
    };
    const auto oldest =
        stats.oldest_ready ? fmt::format("; the oldest has waited for {}", age(*stats.oldest_ready))
                           : std::string{};
    add("ready", stats.ready, stats.exact, "due now" + oldest, tint::green);
    add("delayed", delayed_only(stats), true, "due later");
    add("retrying", stats.retrying, true, "have failed, and are due again later");
    add("waiting", stats.waiting, true, "behind another message of their ordering key");
    add("parked", stats.parked, true, "no worker takes their topic, or it is paused", tint::yellow);
    add("claimed", stats.claimed, stats.exact, "held by a worker", tint::yellow);
    add("done", stats.done, stats.exact, "handled");
    add("dead", stats.dead, true, "failed for good", tint::red);
    add("cancelled", stats.cancelled, true, "taken back before they started");
    add("expired", stats.expired, true, "not started in time");
    rows.print(to);
    if (stats.blocked_keys > 0)
        to.line(to.tinted(
            fmt::format("blocked ordering keys: {}; see `posthorn dead keys`", stats.blocked_keys),
            tint::red));
    if (!stats.exact)
        to.note("~ marks an estimate");
}

} // namespace

exit_status init(const store_request& what, output& to)
{
    return bring_up_to_date(what.url, to);
}

exit_status migrate(const migrate_request& what, output& to)
{
    if (!what.print)
        return bring_up_to_date(what.url, to);
    const auto sql = migration_sql(what.url);
    if (to.json())
        to.document({{"sql", sql}});
    else
        to.write(sql);
    return exit_status::success;
}

exit_status doctor(const store_request& what, output& to)
{
    const auto findings = diagnose(what.url);
    if (to.json())
        to.document(as_json(findings));
    else
        print_findings(findings, to);
    return count_of(findings, severity::problem) == 0 ? exit_status::success : exit_status::failure;
}

exit_status stats(const store_request& what, output& to)
{
    auto where = open(what.url);
    const auto counts = count_messages(where);
    const auto pauses = list_pauses(where);
    if (to.json()) {
        to.document(as_json(counts, pauses));
        return exit_status::success;
    }
    print_stats(counts, to);
    print_pauses(pauses, where.environment().clock->now(), to);
    return exit_status::success;
}

exit_status clean(const clean_request& what, output& to)
{
    auto where = open(what.url);
    const auto removed = posthorn::clean(where, what.rules);
    to.answer(
        {{"finished", removed.finished},
         {"dead", removed.dead},
         {"dedup_keys", removed.dedup_keys},
         {"join_rows", removed.joins},
         {"inbox", removed.inbox},
         {"command_keys", removed.command_keys},
         {"leases", removed.leases},
         {"executions", removed.executions}},
        fmt::format("removed {}, {}, {}, {} of joins, {} of the inbox, {} of commands, {} and "
                    "{} of jobs",
                    counted(removed.finished, "finished message"),
                    counted(removed.dead, "dead message"), counted(removed.dedup_keys, "dedup key"),
                    counted(removed.joins, "row"), counted(removed.inbox, "row"),
                    counted(removed.command_keys, "key"), counted(removed.leases, "lease"),
                    counted(removed.executions, "execution")));
    return exit_status::success;
}

} // namespace posthorn::cli
