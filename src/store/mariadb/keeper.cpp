// What happens to messages after their end: new attempts, removal, and the keys they held.
#include "store/mariadb/keeper.hpp"

#include "store/mariadb/find_seq.hpp"
#include "store/mariadb/keys.hpp"
#include "store/mariadb/ledger.hpp"
#include "store/mariadb/places.hpp"
#include "store/mariadb/statements.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::mariadb {
namespace {

struct dead_message {
    place where;
    std::string ordering_key;
};

// Locks the message; nothing if it is not dead.
std::optional<dead_message> lock_dead(connection& db, std::int64_t seq)
{
    auto row = db.use(sql::lock_queued::text);
    row.bind(sql::lock_queued::seq, seq);
    if (!row.step())
        return std::nullopt;
    dead_message found{static_cast<place>(row.integer(0)), std::string(row.text(1))};
    return state_of(found.where) == message_state::dead ? std::optional{found} : std::nullopt;
}

} // namespace

bool keeper::redrive(message_id id, duration delay)
{
    const auto seq = find_seq(db_, id);
    const auto found = seq ? lock_dead(db_, *seq) : std::nullopt;
    if (!found)
        return false;
    const bool has_key = !found->ordering_key.empty();
    using statement = sql::redrive;
    db_.use(statement::text)
        .bind(statement::seq, *seq)
        .bind(statement::place, number(has_key ? place::waiting : place::ready))
        .bind(statement::due_at, db_.now() + delay)
        .run();
    // What blocked its key is its head, and may have to give way to an earlier one that was
    // redriven.
    if (has_key && found->where == place::dead_blocking)
        keys(db_).go_on({found->ordering_key});
    else if (has_key)
        keys(db_).admit_redriven(*seq, found->ordering_key);
    follower_.came_back({&*seq, 1});
    return true;
}

bool keeper::remove_dead_one(std::int64_t seq)
{
    const auto found = lock_dead(db_, seq);
    if (!found)
        return false;
    ledger(db_, db_.now()).forget({{.which = {.seq = seq, .queued = true}, .started_at = {}}});
    return true;
}

bool keeper::purge(message_id id)
{
    const auto seq = find_seq(db_, id);
    return seq && remove_dead_one(*seq);
}

bool keeper::skip_key(std::string_view ordering_key)
{
    std::int64_t seq = 0;
    {
        using statement = sql::blocking_of_key;
        auto row = db_.use(statement::text);
        row.bind_bytes(statement::ordering_key, ordering_key);
        if (!row.step())
            return false;
        seq = row.integer(0);
    }
    db_.use(sql::move_one::text)
        .bind(sql::move_one::seq, seq)
        .bind(sql::move_one::place, number(place::dead))
        .run();
    keys(db_).go_on({std::string(ordering_key)});
    return true;
}

bool keeper::pause(std::string_view topic)
{
    using statement = sql::pause;
    return db_.use(statement::text)
               .bind_bytes(statement::topic, topic)
               .bind(statement::now, db_.environment().clock->database_time())
               .run() > 0;
}

bool keeper::resume(std::string_view topic)
{
    return db_.use(sql::resume::text).bind_bytes(sql::resume::topic, topic).run() > 0;
}

// The newest number that may have been given out until then; numbers grow with time.
std::int64_t keeper::last_created_until(timestamp until)
{
    std::int64_t low = 0;  // created in time, as far as that exists
    std::int64_t high = 0; // the newest of all
    {
        auto row = db_.use(sql::ends_of_log::text);
        row.step();
        low = row.integer(0) - 1;
        high = row.integer(1);
    }
    while (low < high) {
        const auto middle = low + (high - low + 1) / 2;
        auto row = db_.use(sql::creation_from::text);
        row.bind(sql::creation_from::seq, middle);
        if (row.step() && row.time(1) <= until)
            low = std::max(middle, row.integer(0));
        else
            high = middle - 1;
    }
    return high;
}

std::size_t keeper::remove_finished(duration older_than, std::size_t limit)
{
    const auto until = db_.now() - older_than;
    std::vector<std::int64_t> late;
    const auto last = last_created_until(until);
    {
        using statement = sql::removable_finished;
        auto row = db_.use(statement::text);
        row.bind(statement::last, last)
            .bind(statement::until, until)
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            late.push_back(row.integer(0));
    }
    if (late.empty())
        return 0;
    const auto list = json_list(late);
    db_.use(sql::delete_finished::text).bind_ascii(sql::delete_finished::list, list).run();
    ledger(db_, until).delete_messages(late);
    return late.size();
}

std::size_t keeper::remove_dead(duration older_than, std::size_t limit)
{
    std::vector<std::int64_t> late;
    {
        using statement = sql::removable_dead;
        auto row = db_.use(statement::text);
        row.bind(statement::until, db_.now() - older_than)
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            late.push_back(row.integer(0));
    }
    for (const auto seq : late)
        remove_dead_one(seq);
    return late.size();
}

std::size_t keeper::forget_dedup_keys(std::size_t limit)
{
    std::vector<std::pair<std::string, std::string>> late;
    {
        using statement = sql::removable_dedup;
        auto row = db_.use(statement::text);
        row.bind(statement::now, db_.now())
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            late.emplace_back(row.text(0), row.text(1));
    }
    if (late.empty())
        return 0;
    using statement = sql::forget_dedup;
    auto rows = db_.use(statement::text);
    for (const auto& [topic, key] : late) {
        rows.bind_bytes(statement::topic, topic).bind_bytes(statement::dedup_key, key);
        rows.end_row();
    }
    rows.run();
    return late.size();
}

} // namespace posthorn::mariadb
