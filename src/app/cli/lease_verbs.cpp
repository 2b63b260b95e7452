// The verbs of leases: who holds what, and taking it away.
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/leases.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

std::int64_t number_of(fence which)
{
    return static_cast<std::int64_t>(which);
}

double in_seconds(duration length)
{
    return std::chrono::duration<double>(length).count();
}

// One that nobody has had has no holder and no times.
bool was_granted(const lease_record& what)
{
    return what.acquired_at != timestamp{};
}

ordered_json lease_as_json(const lease_record& what)
{
    const bool granted = was_granted(what);
    return {{"name", what.name},
            {"held", what.held},
            {"holder", what.holder.empty() ? ordered_json() : ordered_json(what.holder)},
            {"fence", number_of(what.fence)},
            {"length_seconds", in_seconds(what.length)},
            {"left_seconds", what.held ? ordered_json(in_seconds(what.left)) : ordered_json()},
            {"acquired_at", granted ? ordered_json(iso_time(what.acquired_at)) : ordered_json()},
            {"renewed_at", granted ? ordered_json(iso_time(what.renewed_at)) : ordered_json()}};
}

void print_leases(const std::vector<lease_record>& page, timestamp now, output& to)
{
    using side = column::side;
    table rows({{"NAME"},
                {"STATE"},
                {"FENCE", side::right},
                {"HOLDER"},
                {"LEFT", side::right},
                {"ACQUIRED"}});
    for (const auto& each : page)
        rows.add({{each.name},
                  {each.held ? "held" : "free", each.held ? tint::green : tint::dim},
                  {fmt::format("{}", number_of(each.fence))},
                  {each.holder},
                  {each.held ? age(each.left) : ""},
                  {was_granted(each) ? relative(each.acquired_at, now) : ""}});
    rows.print(to);
}

} // namespace

exit_status list_of_leases(const leases_request& what, output& to)
{
    auto where = open(what.url);
    const auto page = list_leases(where, what.filter);
    const bool more = page.size() == what.filter.limit;
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back(lease_as_json(each));
        to.document({{"leases", std::move(list)},
                     {"next_after", more ? ordered_json(page.back().name) : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty())
        to.note("no leases");
    else
        print_leases(page, where.environment().clock->now(), to);
    if (more)
        to.note(fmt::format("there may be more: --after {}", printable(page.back().name)));
    return exit_status::success;
}

exit_status release_lease(const release_request& what, output& to)
{
    auto where = open(what.url);
    const auto from = what.fence ? std::optional{fence{*what.fence}} : std::nullopt;
    const auto had = take_lease_away(where, what.name, from);
    to.answer({{"name", what.name},
               {"released", had.has_value()},
               {"fence", had ? ordered_json(number_of(*had)) : ordered_json()}},
              had ? fmt::format("released: its holder had the fence {}", number_of(*had))
                  : fmt::format("nobody has the lease{}", what.fence ? " with this fence" : ""));
    return had ? exit_status::success : exit_status::failure;
}

} // namespace posthorn::cli
