// The look of the idle: a few index look-ups, none of which grows with the number of messages.
#include "store/sqlite/outlook.hpp"

#include "store/sqlite/claim.hpp"
#include "store/sqlite/row_state.hpp"
#include "store/sqlite/statements.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::sqlite {
namespace {

bool log_may_have_more(connection& db)
{
    constexpr std::int64_t window = 1'000;
    auto row = db.use(sql::log_has_more::text);
    row.bind(sql::log_has_more::window, window);
    return row.step() && row.integer(0) != 0;
}

std::optional<timestamp> first_time(connection& db, const contract::named_statement& which)
{
    auto row = db.use(which);
    return row.step() ? row.time_or_none(0) : std::nullopt;
}

// The first time at which something in the queue is due; the walk ends where it has come already.
std::optional<timestamp> first_due(connection& db, timestamp now)
{
    std::optional<timestamp> result;
    priority_walk walk(db);
    while ((!result || *result > now) && walk.next())
        result = std::min(result.value_or(walk.due_since()), walk.due_since());
    return result;
}

bool has_come(const std::optional<timestamp>& when, timestamp now)
{
    return when && *when <= now;
}

bool any_parked(connection& db, const std::string& topic, std::int64_t after)
{
    auto row = db.use(sql::next_parked::text);
    row.bind_text(sql::next_parked::topic, topic).bind(sql::next_parked::after, after);
    return row.step();
}

std::vector<contract::outlook::parked_topic> parked_topics(connection& db)
{
    std::vector<contract::outlook::parked_topic> result;
    for (std::string last;;) {
        auto row = db.use(sql::next_parked_topic::text);
        row.bind_text(sql::next_parked_topic::after, last);
        if (!row.step())
            return result;
        const auto reason = reason_of(static_cast<row_state>(row.integer(1)));
        result.push_back({.topic = std::string(row.text(0)),
                          .reason = reason.value_or(park_reason::no_handler)});
        last = result.back().topic;
    }
}

} // namespace

bool claim_is_worthwhile(connection& db, timestamp now, const contract::claim_request& request)
{
    return log_may_have_more(db) || has_come(first_due(db, now), now) ||
           has_come(first_time(db, sql::next_expiry::text), now) ||
           std::ranges::any_of(request.unpark, [&](const auto& topic) {
               return any_parked(db, topic, request.unpark_after);
           });
}

contract::outlook look_ahead(connection& db, timestamp now)
{
    contract::outlook result{.due = log_may_have_more(db)};
    for (const auto& when : {first_due(db, now), first_time(db, sql::next_expiry::text),
                             first_time(db, sql::next_lease_end::text)}) {
        if (!when)
            continue;
        result.due = result.due || *when <= now;
        const auto left = std::max(*when - now, duration::zero());
        result.next = std::min(result.next.value_or(left), left);
    }
    result.parked = parked_topics(db);
    return result;
}

} // namespace posthorn::sqlite
