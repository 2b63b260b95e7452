// Joins with members in other stores, on MariaDB.
#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/mariadb/joins.hpp"
#include "store/mariadb/statements.hpp"

namespace posthorn::mariadb {

bool joins::remember(const contract::report_address& what)
{
    using statement = sql::remember_report;
    const message_id join{what.to.join.value()};
    return db_.use(statement::text)
               .bind(statement::seq, what.seq)
               .bind_bytes(statement::store, what.to.store)
               .bind(statement::join_id, join)
               .run() > 0;
}

std::vector<contract::report_address> joins::addresses_of(std::span<const std::int64_t> seqs)
{
    const auto list = contract::json_of(seqs);
    auto row = db_.use(sql::report_addresses::text);
    row.bind_ascii(sql::report_addresses::list, list);
    return contract::read_all(row, contract::read_report_address<query>);
}

void joins::forget(std::span<const std::int64_t> seqs)
{
    const auto list = contract::json_of(seqs);
    db_.use(sql::forget_reports::text).bind_ascii(sql::forget_reports::list, list).run();
    using statement = sql::follow_remote_no_more;
    db_.use(statement::text).bind_ascii(statement::list, list).run();
}

std::optional<contract::remote_row> joins::find_remote(std::int64_t join, message_id id)
{
    using statement = sql::find_remote_member;
    auto row = db_.use(statement::text);
    row.bind(statement::number, join).bind(statement::id, id);
    return row.step() ? std::optional{contract::read_remote(row, join)} : std::nullopt;
}

void joins::put_remote(const contract::remote_row& what)
{
    using statement = sql::put_remote_member;
    db_.use(statement::text)
        .bind(statement::number, what.join)
        .bind(statement::id, what.id)
        .bind_bytes(statement::store, what.store)
        .bind(statement::state, static_cast<std::int64_t>(what.state))
        .bind(statement::reported, static_cast<std::int64_t>(what.reported))
        .bind(statement::version, what.version)
        .run();
}

std::vector<contract::remote_row> joins::rows_of_join(std::int64_t join, message_id after,
                                                      std::size_t limit)
{
    using statement = sql::remote_members_of_join;
    auto row = db_.use(statement::text);
    row.bind(statement::number, join)
        .bind(statement::after, after)
        .bind(statement::limit, static_cast<std::int64_t>(limit));
    return contract::read_all(
        row, [join](const query& each) { return contract::read_remote(each, join); });
}

} // namespace posthorn::mariadb
