// Reading: find the numbers of the messages first, then put the records together from the tables.
#include "store/mariadb/reader.hpp"

#include "core/validation.hpp"
#include "store/contract/listing.hpp"
#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/find_seq.hpp"
#include "store/mariadb/outlook.hpp"
#include "store/mariadb/parking.hpp"
#include "store/mariadb/places.hpp"
#include "store/mariadb/statements.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace posthorn::mariadb {
namespace {

// Every statement that lists has the same filter, so its parameters are bound by one function.
template <typename Statement>
void bind_filter(query& row, const message_filter& filter)
{
    const contract::topic_filter topic(filter.topic);
    row.bind(Statement::after, filter.after_position)
        .bind(Statement::before, filter.before_position)
        .bind_bytes_or_null(Statement::topic, topic.exact)
        .bind_bytes_or_null(Statement::topic_start, topic.start)
        .bind_bytes_or_null(Statement::ordering_key, filter.ordering_key)
        .bind_bytes_or_null(Statement::correlation_id, filter.correlation_id)
        .bind(Statement::created_before, filter.created_before)
        .bind_bytes_or_null(Statement::error, filter.error_contains)
        .bind(Statement::limit, static_cast<std::int64_t>(filter.limit));
}

std::vector<std::int64_t> numbers(query& row)
{
    std::vector<std::int64_t> result;
    while (row.step())
        result.push_back(row.integer(0));
    return result;
}

template <typename Statement>
std::vector<std::int64_t> seqs(connection& db, const message_filter& filter)
{
    auto row = db.use(Statement::text);
    bind_filter<Statement>(row, filter);
    return numbers(row);
}

std::vector<std::int64_t> seqs_in_queue(connection& db, const message_filter& filter, place where)
{
    using statement = sql::seqs_in_queue;
    auto row = db.use(statement::text);
    bind_filter<statement>(row, filter);
    row.bind(statement::place, number(where))
        .bind(statement::now, db.environment().clock->database_time())
        .bind(statement::ready_as, where == place::ready ? contract::ready_number(filter) : 0);
    return numbers(row);
}

// With `at_limit` those that wait for the limit of a handler, which are ready; else the parked
// ones.
std::vector<std::int64_t> seqs_put_aside(connection& db, const message_filter& filter,
                                         bool at_limit)
{
    using statement = sql::seqs_put_aside;
    auto row = db.use(statement::text);
    bind_filter<statement>(row, filter);
    row.bind(statement::at_limit, std::int64_t{at_limit})
        .bind(statement::now, db.environment().clock->database_time())
        .bind(statement::ready_as, at_limit ? contract::ready_number(filter) : 0);
    return numbers(row);
}

std::vector<std::int64_t> seqs_finished(connection& db, const message_filter& filter, place state)
{
    using statement = sql::seqs_finished;
    auto row = db.use(statement::text);
    bind_filter<statement>(row, filter);
    row.bind(statement::state, number(state));
    return numbers(row);
}

message_record read_message_part(const query& row)
{
    message_record result;
    result.position = row.integer(0);
    result.id = row.id(1);
    result.created_at = row.time(2);
    result.due_at = result.created_at;
    result.topic = row.text(3);
    result.ordering_key = row.text(4);
    result.correlation_id = row.text(5);
    result.causation_id = row.text(6);
    result.headers = core::headers_from_json(row.text(7));
    result.payload_bytes = static_cast<std::size_t>(row.integer(8));
    result.payload = row.text(9);
    return result;
}

void read_queue_part(const query& row, message_record& into)
{
    const auto where = static_cast<place>(row.integer(10));
    into.state = state_of(where);
    into.blocks_key = where == place::dead_blocking;
    into.priority = static_cast<int>(-row.integer(11));
    into.due_at = row.time(12);
    into.expires_at = row.time_or_none(13);
    into.fence = fence{row.integer(14)};
    into.attempts = static_cast<int>(row.integer(15));
    into.errors = static_cast<int>(row.integer(16));
    into.redrives = static_cast<int>(row.integer(17));
    into.started_at = row.time_or_none(18);
    into.failed_at = row.time_or_none(19);
    into.finished_at = row.time_or_none(20);
    into.worker = row.text(21);
    into.last_error = row.text(22);
    if (where == place::parked) {
        into.parked_for = park_reason_of(row.integer(37));
        into.state = contract::state_aside(*into.parked_for);
    }
    if (into.state == message_state::ready)
        into.ready_as = contract::ready_as(row.integer(38) != 0, into.errors);
}

void read_finished_part(const query& row, message_record& into)
{
    into.state = state_of(static_cast<place>(row.integer(23)));
    into.finished_at = row.time_or_none(24);
    into.started_at = row.time_or_none(25);
    into.failed_at = row.time_or_none(26);
    into.attempts = static_cast<int>(row.integer(27));
    into.errors = static_cast<int>(row.integer(28));
    into.redrives = static_cast<int>(row.integer(29));
    into.fence = fence{row.integer(30)};
    into.worker = row.text(31);
    into.last_error = row.text(32);
    if (!row.is_null(34)) { // what was never in the queue had nothing of these
        into.priority = static_cast<int>(-row.integer(33));
        into.due_at = row.time(34);
        into.expires_at = row.time_or_none(35);
    }
}

void add_batch_facts(const batch_record& batch, std::uint32_t ordinal, message_record& into)
{
    into.fence = batch.number();
    into.worker = batch.worker();
    into.lease_until = batch.lease_until();
    into.started = batch.is_started(ordinal);
    if (into.started) {
        into.started_at = batch.started_at(ordinal);
        ++into.attempts;
    }
}

} // namespace

std::optional<message_record> reader::find(message_id id)
{
    const auto seq = find_seq(db_, id);
    if (!seq)
        return std::nullopt;
    auto found = load({*seq}, true);
    return found.empty() ? std::nullopt : std::optional{std::move(found.front())};
}

std::vector<message_record> reader::load(const std::vector<std::int64_t>& seqs, bool with_payload)
{
    std::vector<message_record> result;
    if (seqs.empty())
        return result;
    const auto list = json_list(seqs);
    {
        using statement = sql::message_rows;
        auto row = db_.use(statement::text);
        row.bind_ascii(statement::list, list)
            .bind(statement::with_payload, std::int64_t{with_payload})
            .bind(statement::now, db_.environment().clock->database_time());
        while (row.step()) {
            auto& next = result.emplace_back(read_message_part(row));
            if (!row.is_null(23))
                read_finished_part(row, next);
            else if (!row.is_null(11))
                read_queue_part(row, next);
            else if (row.is_null(36))
                next.state = message_state::claimed;
        }
    }
    add_batch_facts(result);
    return result;
}

// A claimed message from the queue knows its batch; a plain one is looked for in all of them.
void reader::add_batch_facts(std::vector<message_record>& records)
{
    std::map<std::int64_t, message_record*> claimed;
    std::set<fence> fences;
    for (auto& each : records) {
        if (each.state != message_state::claimed)
            continue;
        claimed.emplace(each.position, &each);
        fences.insert(each.fence);
    }
    if (claimed.empty())
        return;
    std::vector<batch_record> batches;
    if (fences.contains(fence{}) || fences.size() > 1)
        batches = batch_record::read_all(db_);
    else if (auto only = batch_record::read(db_, *fences.begin()))
        batches.push_back(std::move(*only));
    for (const auto& batch : batches)
        for (std::uint32_t ordinal = 0; ordinal < batch.members().size(); ++ordinal)
            if (const auto found = claimed.find(batch.members()[ordinal].seq);
                found != claimed.end() && batch.is_open(ordinal))
                mariadb::add_batch_facts(batch, ordinal, *found->second);
}

std::vector<message_record> reader::list(const message_filter& filter)
{
    return load(matching_seqs(filter), filter.with_payload);
}

std::vector<std::int64_t> reader::matching_seqs(const message_filter& filter)
{
    if (!filter.state)
        return seqs<sql::seqs_of_all>(db_, filter);
    switch (*filter.state) {
    case message_state::ready: {
        auto queued = contract::merged(seqs_in_queue(db_, filter, place::ready),
                                       seqs_put_aside(db_, filter, true), filter.limit);
        if (!contract::takes_due(filter))
            return queued;
        return contract::merged(queued, seqs<sql::seqs_of_ready>(db_, filter), filter.limit);
    }
    case message_state::waiting: return seqs_in_queue(db_, filter, place::waiting);
    case message_state::parked: return seqs_put_aside(db_, filter, false);
    case message_state::claimed:
        return contract::merged(seqs_in_queue(db_, filter, place::claimed), claimed_seqs(filter),
                                filter.limit);
    case message_state::dead: return seqs<sql::seqs_of_dead>(db_, filter);
    case message_state::done: return seqs_finished(db_, filter, place::done);
    case message_state::cancelled: return seqs_finished(db_, filter, place::cancelled);
    case message_state::expired: return seqs_finished(db_, filter, place::expired);
    }
    return {};
}

// Members that were plain; the queue does not know them.
std::vector<std::int64_t> reader::claimed_seqs(const message_filter& filter)
{
    std::set<std::int64_t> open;
    for (const auto& batch : batch_record::read_all(db_))
        for (std::uint32_t ordinal = 0; ordinal < batch.members().size(); ++ordinal)
            if (batch.is_open(ordinal) && !batch.members()[ordinal].queued)
                open.insert(batch.members()[ordinal].seq);
    std::vector<std::int64_t> result;
    for (auto seq = open.upper_bound(filter.after_position);
         seq != open.end() && result.size() < filter.limit; ++seq) {
        auto just_this = filter;
        just_this.after_position = *seq - 1;
        just_this.limit = 1;
        const auto found = seqs<sql::seqs_of_all>(db_, just_this);
        if (!found.empty() && found.front() == *seq)
            result.push_back(*seq);
    }
    return result;
}

std::int64_t reader::estimated_rows(std::string_view table)
{
    const auto name = db_.prefix() + std::string(table);
    auto row = db_.use(sql::estimated_rows::text);
    row.bind_ascii(sql::estimated_rows::name, name);
    row.step();
    return row.integer(0);
}

store_stats reader::count()
{
    const auto now = db_.now();
    store_stats result;
    count_waiting(result, now);
    count_ended(result);
    {
        auto row = db_.use(sql::count_open::text);
        row.step();
        result.claimed = row.integer(0);
    }
    {
        auto row = db_.use(sql::count_blocked_keys::text);
        row.step();
        result.blocked_keys = row.integer(0);
    }
    {
        const auto name = db_.prefix() + "message";
        auto row = db_.use(sql::numbers_given_out::text);
        row.bind_ascii(sql::numbers_given_out::name, name);
        row.step();
        result.enqueued = row.integer(0);
    }
    return result;
}

void reader::count_waiting(store_stats& into, timestamp now)
{
    {
        auto row = db_.use(sql::count_ready::text);
        row.bind(sql::count_ready::limit, contract::countable_max + 1);
        row.step();
        into.ready = row.integer(0);
    }
    if (into.ready > contract::countable_max) {
        into.exact = false;
        into.ready = std::max(into.ready, estimated_rows("ready"));
    }
    std::optional<timestamp> oldest;
    {
        auto row = db_.use(sql::oldest_ready::text);
        if (row.step())
            oldest = row.time(0);
    }
    auto row = db_.use(sql::count_queue::text);
    row.bind(sql::count_queue::now, now);
    while (row.step()) {
        const auto where = static_cast<place>(row.integer(0));
        const bool later = row.integer(1) != 0;
        const auto count = row.integer(2);
        if (where == place::ready && !later) {
            into.ready += count;
            oldest = std::min(oldest.value_or(row.time(3)), row.time(3));
        } else if (where == place::ready) {
            into.delayed += count;
            into.retrying += row.integer(4);
        } else if (where == place::waiting) {
            into.waiting += count;
        } else if (where == place::parked) {
            into.parked += count;
        } else if (state_of(where) == message_state::dead) {
            into.dead += count;
        }
    }
    if (oldest)
        into.oldest_ready = std::max(now - *oldest, duration::zero());
}

void reader::count_ended(store_stats& into)
{
    std::map<place, std::int64_t> counts;
    std::int64_t counted = 0;
    {
        auto row = db_.use(sql::count_finished::text);
        row.bind(sql::count_finished::limit, contract::countable_max + 1);
        while (row.step()) {
            counts[static_cast<place>(row.integer(0))] = row.integer(1);
            counted += row.integer(1);
        }
    }
    // The rest is taken to be like the newest.
    double scale = 1.0;
    if (counted > contract::countable_max) {
        into.exact = false;
        scale = std::max(1.0, static_cast<double>(estimated_rows("finished")) /
                                  static_cast<double>(counted));
    }
    const auto scaled = [&](place which) {
        return static_cast<std::int64_t>(static_cast<double>(counts[which]) * scale);
    };
    into.done = scaled(place::done);
    into.cancelled = scaled(place::cancelled);
    into.expired = scaled(place::expired);
}

std::vector<blocked_key> reader::blocked_keys(std::size_t limit)
{
    std::vector<blocked_key> result;
    auto row = db_.use(sql::blocked_keys::text);
    row.bind(sql::blocked_keys::limit, static_cast<std::int64_t>(limit));
    while (row.step())
        result.push_back({.ordering_key = std::string(row.text(0)),
                          .dead_message = row.id(1),
                          .topic = std::string(row.text(2)),
                          .last_error = std::string(row.text(3)),
                          .since = row.time(4),
                          .waiting = row.integer(5)});
    return result;
}

std::optional<message_id> reader::blocker_of(std::string_view ordering_key)
{
    auto row = db_.use(sql::blocker_of::text);
    row.bind_bytes(sql::blocker_of::ordering_key, ordering_key);
    return row.step() ? std::optional{row.id(0)} : std::nullopt;
}

contract::outlook reader::outlook()
{
    return look_ahead(db_, nullptr);
}

std::vector<pause_record> reader::pauses()
{
    std::vector<pause_record> result;
    auto row = db_.use(sql::pauses::text);
    while (row.step())
        result.push_back({.topic = std::string(row.text(0)), .since = row.time(1)});
    return result;
}

} // namespace posthorn::mariadb
