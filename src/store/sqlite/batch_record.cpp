// Reading and writing a batch's row.
#include "store/sqlite/batch_record.hpp"

#include "store/sqlite/statements.hpp"

namespace posthorn::sqlite {

std::optional<batch_record> batch_record::load(connection& db, fence number)
{
    auto row = db.use(sql::find_batch::text);
    row.bind(sql::find_batch::fence, number);
    if (!row.step())
        return std::nullopt;
    return batch_record(contract::packed_batch{.number = number,
                                               .owner = std::string(row.text(0)),
                                               .worker = std::string(row.text(1)),
                                               .claimed_at = row.time(2),
                                               .lease_until = row.time(3),
                                               .open = row.integer(4),
                                               .members = std::string(row.text(5)),
                                               .settled = std::string(row.text(6)),
                                               .starts = std::string(row.text(7))});
}

void batch_record::insert(connection& db) const
{
    const auto packed = this->packed();
    using statement = sql::insert_batch;
    auto row = db.use(statement::text);
    row.bind(statement::fence, packed.number)
        .bind_text(statement::owner, packed.owner)
        .bind_text(statement::worker, packed.worker)
        .bind(statement::claimed_at, packed.claimed_at)
        .bind(statement::lease_until, packed.lease_until)
        .bind(statement::open, packed.open)
        .bind_blob(statement::members, packed.members)
        .bind_blob(statement::settled, packed.settled)
        .bind_blob(statement::starts, packed.starts)
        .run();
}

void batch_record::save(connection& db) const
{
    if (open() == 0) {
        db.use(sql::delete_batch::text).bind(sql::delete_batch::fence, number()).run();
        return;
    }
    const auto packed = this->packed();
    using statement = sql::update_batch;
    auto row = db.use(statement::text);
    row.bind(statement::open, packed.open)
        .bind_blob(statement::settled, packed.settled)
        .bind_blob(statement::starts, packed.starts)
        .bind(statement::fence, packed.number)
        .run();
}

} // namespace posthorn::sqlite
