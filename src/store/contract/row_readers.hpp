// What the rows of components mean, said once for the engines whose results are walked row by row:
// `Row` has `integer`, `text`, `time`, `time_or_none`, `id` and `is_null` of a column.
#pragma once

#include "store/contract/job_table.hpp"
#include "store/contract/remote_join_table.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/message.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::contract {

template <typename Row>
std::optional<std::int64_t> number_or_none(const Row& row, int column)
{
    return row.is_null(column) ? std::nullopt : std::optional{row.integer(column)};
}

template <typename Row>
std::optional<message> message_or_none(const Row& row, int topic_column)
{
    if (row.is_null(topic_column))
        return std::nullopt;
    return message{.topic = std::string(row.text(topic_column)),
                   .payload = std::string(row.text(topic_column + 1))};
}

template <typename Row>
join_record read_join(const Row& row)
{
    join_record result;
    result.position = row.integer(0);
    result.id = join_id{row.id(1).value()};
    result.state = static_cast<join_state>(row.integer(2));
    result.ended_by = static_cast<join_end>(row.integer(3));
    result.expected = number_or_none(row, 4);
    result.needed = number_or_none(row, 5);
    result.fail_if_any_step_failed = row.integer(6) != 0;
    result.attached = row.integer(7);
    result.completed = row.integer(8);
    result.failed = row.integer(9);
    result.reopened = static_cast<int>(row.integer(10));
    result.created_at = row.time(11);
    result.updated_at = row.time(12);
    result.deadline_at = row.time_or_none(13);
    result.ended_at = row.time_or_none(14);
    result.grouping_key = row.text(15);
    result.correlation_id = row.text(16);
    return result;
}

template <typename Row>
report_address read_report_address(const Row& row)
{
    return {.seq = row.integer(0),
            .to = {.store = std::string(row.text(1)), .join = join_id{row.id(2).value()}}};
}

template <typename Row>
remote_row read_remote(const Row& row, std::int64_t join)
{
    return {.join = join,
            .id = row.id(0),
            .store = std::string(row.text(1)),
            .state = static_cast<member_state>(row.integer(2)),
            .reported = static_cast<member_state>(row.integer(3)),
            .version = row.integer(4)};
}

template <typename Row>
inbox_record read_inbound(const Row& row)
{
    inbox_record result;
    result.position = row.integer(0);
    result.from = {.source = std::string(row.text(1)), .id = std::string(row.text(2))};
    result.state = static_cast<inbox_state>(row.integer(3));
    if (!row.is_null(4))
        result.message = row.id(4);
    result.content_hash = row.text(5);
    result.seen_at = row.time(6);
    result.settled_at = row.time_or_none(7);
    return result;
}

template <typename Row>
key_record read_key(const Row& row)
{
    key_record result;
    result.command = row.text(0);
    result.key = row.text(1);
    result.fingerprint = row.text(2);
    result.state = static_cast<key_state>(row.integer(3));
    result.epoch = row.integer(4);
    result.created_at = row.time(6);
    result.lock_until = row.time(7);
    result.ended_at = row.time_or_none(8);
    result.expires_at = row.time(9);
    result.error = row.text(10);
    return result;
}

template <typename Row>
run_row read_run(const Row& row)
{
    run_row result;
    auto& record = result.record;
    record.position = row.integer(0);
    record.id = execution_id{row.id(1).value()};
    record.job = row.text(2);
    record.nominal_at = row.time(3);
    record.kind = static_cast<execution_kind>(row.integer(4));
    record.state = static_cast<execution_state>(row.integer(5));
    record.covers_from = row.time(6);
    record.covers = row.integer(7);
    result.seq = row.is_null(8) ? 0 : row.integer(8);
    if (!row.is_null(9))
        record.message = row.id(9);
    record.created_at = row.time(10);
    record.started_at = row.time_or_none(11);
    record.ended_at = row.time_or_none(12);
    record.attempts = static_cast<int>(row.integer(13));
    record.reason = row.text(14);
    return result;
}

/// All rows that are left.
template <typename Row, typename Reader>
auto read_all(Row& row, const Reader& read)
{
    std::vector<decltype(read(row))> result;
    while (row.step())
        result.push_back(read(row));
    return result;
}

} // namespace posthorn::contract
