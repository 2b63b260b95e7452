// What happens to messages after their end: new attempts, removal, and the keys they held.
#include "store/sqlite/keeper.hpp"

#include "store/sqlite/ledger.hpp"
#include "store/sqlite/numbered_id.hpp"
#include "store/sqlite/statements.hpp"

#include <vector>

namespace posthorn::sqlite {
namespace {

template <typename Statement>
std::vector<std::int64_t> removable(connection& db, timestamp until, std::size_t limit)
{
    std::vector<std::int64_t> result;
    auto row = db.use(Statement::text);
    row.bind(Statement::until, until).bind(Statement::limit, static_cast<std::int64_t>(limit));
    while (row.step())
        result.push_back(row.integer(0));
    return result;
}

} // namespace

bool keeper::redrive(message_id id, duration delay)
{
    const auto seq = find_seq(db_, id);
    if (!seq)
        return false;
    std::string key;
    {
        using statement = sql::redrive;
        auto row = db_.use(statement::text);
        row.bind(statement::seq, *seq).bind(statement::due_at, world_.clock->now() + delay);
        if (!row.step())
            return false;
        key = std::string(row.text(0));
        row.run();
    }
    ledger(db_).let_key_go_on(key);
    follower_.came_back({&*seq, 1});
    return true;
}

bool keeper::remove_dead_one(std::int64_t seq)
{
    std::string key;
    {
        auto row = db_.use(sql::delete_dead::text);
        row.bind(sql::delete_dead::seq, seq);
        if (!row.step())
            return false;
        key = std::string(row.text(0));
        row.run();
    }
    db_.use(sql::delete_message::text).bind(sql::delete_message::seq, seq).run();
    ledger(db_).let_key_go_on(key);
    return true;
}

bool keeper::purge(message_id id)
{
    const auto seq = find_seq(db_, id);
    return seq && remove_dead_one(*seq);
}

bool keeper::skip_key(std::string_view ordering_key)
{
    using statement = sql::skip_key;
    db_.use(statement::text).bind_text(statement::ordering_key, ordering_key).run();
    const bool was_blocked = db_.changes() > 0;
    ledger(db_).let_key_go_on(ordering_key);
    return was_blocked;
}

bool keeper::pause(std::string_view topic)
{
    using statement = sql::pause;
    db_.use(statement::text)
        .bind_text(statement::topic, topic)
        .bind(statement::since, world_.clock->now())
        .run();
    return db_.changes() > 0;
}

bool keeper::resume(std::string_view topic)
{
    db_.use(sql::resume::text).bind_text(sql::resume::topic, topic).run();
    return db_.changes() > 0;
}

std::size_t keeper::remove_finished(duration older_than, std::size_t limit)
{
    const auto late =
        removable<sql::removable_finished>(db_, world_.clock->now() - older_than, limit);
    for (const auto seq : late) {
        db_.use(sql::delete_finished::text).bind(sql::delete_finished::seq, seq).run();
        db_.use(sql::delete_message::text).bind(sql::delete_message::seq, seq).run();
    }
    return late.size();
}

std::size_t keeper::remove_dead(duration older_than, std::size_t limit)
{
    const auto late = removable<sql::removable_dead>(db_, world_.clock->now() - older_than, limit);
    for (const auto seq : late)
        remove_dead_one(seq);
    return late.size();
}

std::size_t keeper::forget_dedup_keys(std::size_t limit)
{
    using statement = sql::forget_dedup;
    db_.use(statement::text)
        .bind(statement::now, world_.clock->now())
        .bind(statement::limit, static_cast<std::int64_t>(limit))
        .run();
    return static_cast<std::size_t>(db_.changes());
}

} // namespace posthorn::sqlite
