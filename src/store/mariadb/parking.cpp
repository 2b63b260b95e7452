// Parking and unparking. Finding by topic is a look-up in a table of nothing but parked messages.
#include "store/mariadb/parking.hpp"

#include "store/mariadb/places.hpp"
#include "store/mariadb/statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

namespace posthorn::mariadb {
namespace {

std::string list_of(const std::vector<parking::aside>& which)
{
    std::string list = "[";
    for (const auto& each : which)
        fmt::format_to(std::back_inserter(list), "{}[{},{}]", list.size() > 1 ? "," : "", each.seq,
                       number(each.why));
    return list + "]";
}

std::string hexadecimal_list(const std::vector<std::string_view>& texts)
{
    std::string list = "[";
    for (const auto text : texts) {
        list += list.size() > 1 ? ",\"" : "\"";
        for (const char each : text)
            fmt::format_to(std::back_inserter(list), "{:02X}", static_cast<unsigned char>(each));
        list += '"';
    }
    return list + "]";
}

} // namespace

std::int64_t number(park_reason why) noexcept
{
    switch (why) {
    case park_reason::no_handler: return 0;
    case park_reason::paused: return 1;
    case park_reason::at_limit: return 2;
    }
    return 0;
}

park_reason park_reason_of(std::int64_t number) noexcept
{
    switch (number) {
    case 1: return park_reason::paused;
    case 2: return park_reason::at_limit;
    default: return park_reason::no_handler;
    }
}

void parking::add(const std::vector<aside>& which)
{
    if (which.empty())
        return;
    const auto list = list_of(which);
    db_.use(sql::park::text).bind_ascii(sql::park::list, list).run();
}

void parking::remove(const std::vector<std::int64_t>& seqs)
{
    if (seqs.empty())
        return;
    const auto list = json_list(seqs);
    db_.use(sql::delete_parked::text).bind_ascii(sql::delete_parked::list, list).run();
}

std::vector<contract::outlook::parked_topic> parking::topics()
{
    std::vector<contract::outlook::parked_topic> result;
    auto row = db_.use(sql::parked_topics::text);
    while (row.step())
        if (!row.is_null(1)) // it has been taken back meanwhile
            result.push_back(
                {.topic = std::string(row.text(0)), .reason = park_reason_of(row.integer(1))});
    return result;
}

// Those of the topics that have parked messages, the one with the lowest number first.
std::vector<parking::topic_start> parking::starts_of(const selection& which)
{
    std::vector<topic_start> result;
    if (which.topics.empty())
        return result;
    const std::set<std::string_view> distinct(which.topics.begin(), which.topics.end());
    const std::vector<std::string_view> asked(distinct.begin(), distinct.end());
    const auto list = hexadecimal_list(asked);
    auto row = db_.use(sql::parked_among::text);
    row.bind_ascii(sql::parked_among::list, list).bind(sql::parked_among::after, which.after);
    while (row.step())
        if (!row.is_null(1))
            result.push_back({.first = row.integer(1),
                              .topic = asked.at(static_cast<std::size_t>(row.integer(0)) - 1)});
    std::ranges::sort(result, {}, &topic_start::first);
    return result;
}

bool parking::any_of(const selection& which)
{
    return !starts_of(which).empty();
}

// Topic by topic, because a statement about several would lock all they have before it sorts.
std::vector<std::int64_t> parking::lock_first(const selection& which, std::size_t limit)
{
    std::vector<std::int64_t> result;
    for (const auto& [first, topic] : starts_of(which)) {
        const auto before =
            result.size() < limit ? std::numeric_limits<std::int64_t>::max() : result.back();
        if (first >= before)
            break;
        {
            using statement = sql::lock_parked;
            auto row = db_.use(statement::text);
            row.bind_bytes(statement::topic, topic)
                .bind(statement::after, which.after)
                .bind(statement::before, before)
                .bind(statement::limit, static_cast<std::int64_t>(limit));
            while (row.step())
                result.push_back(row.integer(0));
        }
        std::ranges::sort(result);
        result.resize(std::min(result.size(), limit));
    }
    return result;
}

std::size_t parking::unpark(const selection& which, std::size_t limit)
{
    const auto listed = limit > 0 ? lock_first(which, limit) : std::vector<std::int64_t>{};
    if (listed.empty())
        return 0;
    std::vector<std::int64_t> free;
    {
        const auto list = json_list(listed);
        auto row = db_.use(sql::lock_parked_rows::text);
        row.bind_ascii(sql::lock_parked_rows::list, list);
        while (row.step())
            free.push_back(row.integer(0));
    }
    if (free.empty())
        return 0;
    const auto list = json_list(free);
    using statement = sql::move_queued;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::place, number(place::ready))
        .run();
    remove(free);
    return free.size();
}

} // namespace posthorn::mariadb
