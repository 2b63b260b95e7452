// Reading and writing a batch's row.
#include "store/mariadb/batch_record.hpp"

#include "store/mariadb/statements.hpp"

#include <algorithm>

namespace posthorn::mariadb {
namespace {

batch_record record_of(const query& row)
{
    batch_record result(contract::packed_batch{.number = fence{row.integer(0)},
                                               .owner = std::string(row.text(1)),
                                               .worker = std::string(row.text(2)),
                                               .claimed_at = row.time(3),
                                               .lease_until = row.time(4),
                                               .open = row.integer(5),
                                               .members = std::string(row.text(6)),
                                               .settled = std::string(row.text(7)),
                                               .starts = std::string(row.text(8))});
    result.followed = row.integer(9) != 0;
    return result;
}

template <typename Statement>
std::optional<batch_record> one(connection& db, fence number)
{
    auto row = db.use(Statement::text);
    row.bind(Statement::fence, number);
    return row.step() ? std::optional{record_of(row)} : std::nullopt;
}

std::vector<batch_record> all(query& row)
{
    std::vector<batch_record> result;
    while (row.step())
        result.push_back(record_of(row));
    return result;
}

} // namespace

std::optional<batch_record> batch_record::lock(connection& db, fence number)
{
    auto found = db.insist([&] { return one<sql::lock_batch>(db, number); });
    db.require_transaction(); // for the reason that savepoints have
    return found;
}

std::optional<batch_record> batch_record::read(connection& db, fence number)
{
    return one<sql::read_batch>(db, number);
}

std::vector<batch_record> batch_record::read_all(connection& db)
{
    auto row = db.use(sql::read_batches::text);
    return all(row);
}

std::vector<batch_record> batch_record::lock_overdue(connection& db, timestamp now,
                                                     std::size_t limit)
{
    using statement = sql::overdue_batches;
    auto row = db.use(statement::text);
    row.bind(statement::now, now).bind(statement::limit, static_cast<std::int64_t>(limit));
    return all(row);
}

fence batch_record::insert(connection& db) const
{
    const auto packed = this->packed();
    const auto [first, last] = std::ranges::minmax(members(), {}, &member::seq);
    using statement = sql::insert_batch;
    auto row = db.use(statement::text);
    row.bind_bytes(statement::owner, packed.owner)
        .bind_bytes(statement::worker, packed.worker)
        .bind(statement::claimed_at, packed.claimed_at)
        .bind(statement::lease_until, packed.lease_until)
        .bind(statement::open, packed.open)
        .bind(statement::first_seq, first.seq)
        .bind(statement::last_seq, last.seq)
        .bind_bytes(statement::members, packed.members)
        .bind_bytes(statement::settled, packed.settled)
        .bind_bytes(statement::starts, packed.starts);
    row.step();
    return fence{row.integer(0)};
}

void batch_record::save(connection& db) const
{
    if (open() == 0) {
        db.use(sql::delete_batch::text).bind(sql::delete_batch::fence, number()).run();
        return;
    }
    const auto packed = this->packed();
    using statement = sql::update_batch;
    db.use(statement::text)
        .bind(statement::open, packed.open)
        .bind_bytes(statement::settled, packed.settled)
        .bind_bytes(statement::starts, packed.starts)
        .bind(statement::fence, packed.number)
        .run();
}

} // namespace posthorn::mariadb
