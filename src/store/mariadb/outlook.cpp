// The answer comes as rows of several kinds; what is due and what comes next is decided here.
#include "store/mariadb/outlook.hpp"

#include "store/mariadb/parking.hpp"
#include "store/mariadb/statements.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace posthorn::mariadb {
namespace {

enum class kind : std::int64_t { time = 0, moment = 1, parked = 2, pause = 3, chore = 4 };

void weigh(const std::vector<timestamp>& moments, timestamp now, contract::outlook& into)
{
    for (const auto each : moments)
        if (each <= now)
            into.due = true;
        else
            into.next = std::min(into.next.value_or(each - now), each - now);
}

} // namespace

contract::outlook look_ahead(connection& db, const ready_front* front)
{
    contract::outlook result;
    timestamp now;
    std::vector<timestamp> moments;
    std::vector<timestamp> chores;
    bool any_parked = false;
    auto row = db.use(sql::outlook::text);
    row.bind(sql::outlook::now, db.environment().clock->database_time());
    while (row.step())
        switch (static_cast<kind>(row.integer(0))) {
        case kind::time: now = row.time(2); break;
        case kind::moment:
            if (!row.is_null(2))
                moments.push_back(row.time(2));
            break;
        case kind::chore:
            if (!row.is_null(2))
                chores.push_back(row.time(2));
            break;
        case kind::parked: any_parked = true; break;
        case kind::pause:
            result.pauses.push_back({.topic = std::string(row.text(1)), .since = row.time(2)});
            break;
        }
    const auto left_for = front != nullptr ? front->leaves_chores_for() : duration::zero();
    for (const auto each : chores)
        moments.push_back(std::max(each, left_for > duration::zero() ? now + left_for : each));
    weigh(moments, now, result);
    if (any_parked)
        result.parked = parking(db).topics();
    return result;
}

} // namespace posthorn::mariadb
