// Time zones, as cctz reads them.
#include "schedules/zone.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::schedules {
namespace {

using namespace std::chrono;

constexpr std::size_t zone_bytes_max = 64;

// The reader of zones also takes paths, and words of its own.
bool is_zone_name(std::string_view name)
{
    const auto allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '+' || c == '/';
    };
    return !name.empty() && name.size() <= zone_bytes_max && name.front() != '/' &&
           name != "localtime" && !name.starts_with("Fixed/") && std::ranges::all_of(name, allowed);
}

cctz::civil_second civil(core::wall_time when)
{
    return cctz::civil_second() + when.time_since_epoch().count();
}

core::wall_time wall_time_of(const cctz::civil_second& civil)
{
    return core::wall_time{seconds{civil - cctz::civil_second()}};
}

cctz::time_point<cctz::seconds> point(sys_seconds when)
{
    return cctz::time_point<cctz::seconds>{cctz::seconds{when.time_since_epoch().count()}};
}

sys_seconds instant(const cctz::time_point<cctz::seconds>& when)
{
    return sys_seconds{seconds{when.time_since_epoch().count()}};
}

} // namespace

zone zone::load(std::string_view name)
{
    cctz::time_zone data;
    if (!is_zone_name(name) || !cctz::load_time_zone(std::string(name), &data))
        throw error(error_code::invalid_argument,
                    fmt::format("the time zone '{}' is not known to this machine; names are those "
                                "of the IANA database, such as Europe/Vienna",
                                name.substr(0, zone_bytes_max)));
    return {data, std::string(name)};
}

zone::stretch zone::at(sys_seconds when) const
{
    const auto here = data_.lookup(point(when));
    stretch result{.offset = seconds{here.offset}, .end = std::nullopt, .abbreviation = here.abbr};
    cctz::time_zone::civil_transition change;
    if (data_.next_transition(point(when), &change)) {
        const auto end = instant(data_.lookup(change.to).trans);
        if (end > when)
            result.end = end;
    }
    return result;
}

core::wall_time zone::wall(sys_seconds when) const
{
    return wall_time_of(data_.lookup(point(when)).cs);
}

zone::instants zone::of(core::wall_time when) const
{
    using lookup = cctz::time_zone::civil_lookup;
    const auto found = data_.lookup(civil(when));
    switch (found.kind) {
    case lookup::SKIPPED:
        return {.how_many = instants::kind::none,
                .first = instant(found.trans),
                .change = instant(found.trans)};
    case lookup::REPEATED:
        return {.how_many = instants::kind::two,
                .first = instant(found.pre),
                .change = instant(found.trans)};
    case lookup::UNIQUE: break;
    }
    return {.how_many = instants::kind::one, .first = instant(found.pre), .change = {}};
}

} // namespace posthorn::schedules
