// Joins with members in other stores, on PostgreSQL.
#include "store/postgres/joins.hpp"
#include "store/postgres/statements.hpp"

namespace posthorn::postgres {
namespace {

contract::remote_row read_remote(const rows& found, int row, std::int64_t join)
{
    return {.join = join,
            .id = found.id(row, 0),
            .store = std::string(found.text(row, 1)),
            .state = static_cast<member_state>(found.integer(row, 2)),
            .reported = static_cast<member_state>(found.integer(row, 3)),
            .version = found.integer(row, 4)};
}

} // namespace

bool joins::remember(const contract::report_address& what)
{
    using statement = sql::remember_report;
    arguments with;
    with.set(statement::seq, what.seq)
        .set_text(statement::store, what.to.store)
        .set(statement::join_id, message_id{what.to.join.value()});
    return talk_.run(statement::text, with).changed() > 0;
}

std::vector<contract::report_address> joins::addresses_of(std::span<const std::int64_t> seqs)
{
    arguments with;
    with.set(sql::report_addresses::seqs, seqs);
    const auto found = talk_.run(sql::report_addresses::text, with);
    std::vector<contract::report_address> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back({.seq = found.integer(row, 0),
                          .to = {.store = std::string(found.text(row, 1)),
                                 .join = join_id{found.id(row, 2).value()}}});
    return result;
}

void joins::forget(std::span<const std::int64_t> seqs)
{
    arguments reports;
    arguments rows;
    reports.set(sql::forget_reports::seqs, seqs);
    rows.set(sql::follow_remote_no_more::seqs, seqs);
    talk_.run_all({{sql::forget_reports::text, reports}, {sql::follow_remote_no_more::text, rows}});
}

std::optional<contract::remote_row> joins::find_remote(std::int64_t join, message_id id)
{
    using statement = sql::find_remote_member;
    arguments with;
    with.set(statement::number, join).set(statement::id, id);
    const auto found = talk_.run(statement::text, with);
    return found.empty() ? std::nullopt : std::optional{read_remote(found, 0, join)};
}

void joins::put_remote(const contract::remote_row& what)
{
    using statement = sql::put_remote_member;
    arguments with;
    with.set(statement::number, what.join)
        .set(statement::id, what.id)
        .set_text(statement::store, what.store)
        .set(statement::state, static_cast<std::int64_t>(what.state))
        .set(statement::reported, static_cast<std::int64_t>(what.reported))
        .set(statement::version, what.version);
    talk_.run(statement::text, with);
}

std::vector<contract::remote_row> joins::rows_of_join(std::int64_t join, message_id after,
                                                      std::size_t limit)
{
    using statement = sql::remote_members_of_join;
    arguments with;
    with.set(statement::number, join)
        .set(statement::after, after)
        .set(statement::limit, static_cast<std::int64_t>(limit));
    const auto found = talk_.run(statement::text, with);
    std::vector<contract::remote_row> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_remote(found, row, join));
    return result;
}

} // namespace posthorn::postgres
