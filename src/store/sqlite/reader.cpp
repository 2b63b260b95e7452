// Reading: find the numbers of the messages first, then put each record together from its tables.
#include "store/sqlite/reader.hpp"

#include "core/validation.hpp"
#include "store/contract/listing.hpp"
#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/numbered_id.hpp"
#include "store/sqlite/outlook.hpp"
#include "store/sqlite/row_state.hpp"
#include "store/sqlite/statements.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace posthorn::sqlite {
namespace {

// Every statement that lists has the same filter, so its parameters are bound by one function.
template <typename Statement>
void bind_filter(query& row, const message_filter& filter)
{
    const contract::topic_filter topic(filter.topic);
    row.bind(Statement::after, filter.after_position)
        .bind(Statement::before, filter.before_position)
        .bind_text_or_null(Statement::topic, topic.exact)
        .bind_text_or_null(Statement::topic_start, topic.start)
        .bind_text_or_null(Statement::ordering_key, filter.ordering_key)
        .bind_text_or_null(Statement::correlation_id, filter.correlation_id)
        .bind(Statement::created_before, filter.created_before)
        .bind_text_or_null(Statement::error, filter.error_contains)
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

std::vector<std::int64_t> seqs_in_queue(connection& db, const message_filter& filter, row_state low,
                                        row_state high, std::optional<timestamp> ready_at = {})
{
    using statement = sql::seqs_in_queue;
    auto row = db.use(statement::text);
    bind_filter<statement>(row, filter);
    row.bind(statement::low, number(low))
        .bind(statement::high, number(high))
        .bind(statement::ready_as, ready_at ? contract::ready_number(filter) : 0)
        .bind(statement::now, ready_at);
    return numbers(row);
}

std::vector<std::int64_t> seqs_in_queue(connection& db, const message_filter& filter,
                                        row_state state)
{
    return seqs_in_queue(db, filter, state, state);
}

std::vector<std::int64_t> seqs_finished(connection& db, const message_filter& filter,
                                        row_state state)
{
    using statement = sql::seqs_finished;
    auto row = db.use(statement::text);
    bind_filter<statement>(row, filter);
    row.bind(statement::state, number(state));
    return numbers(row);
}

void read_queue_part(const query& row, message_record& into, timestamp now)
{
    const auto state = static_cast<row_state>(row.integer(9));
    into.state = state_of(state);
    into.blocks_key = state == row_state::dead_blocking;
    into.parked_for = reason_of(state);
    into.priority = static_cast<int>(row.integer(10));
    into.due_at = row.time(11);
    into.expires_at = row.time_or_none(12);
    into.fence = fence{row.integer(13)};
    into.attempts = static_cast<int>(row.integer(14));
    into.errors = static_cast<int>(row.integer(15));
    into.redrives = static_cast<int>(row.integer(16));
    into.started_at = row.time_or_none(17);
    into.failed_at = row.time_or_none(18);
    into.finished_at = row.time_or_none(19);
    into.worker = row.text(20);
    into.last_error = row.text(21);
    if (into.state == message_state::ready)
        into.ready_as = contract::ready_as(into.due_at > now, into.errors);
}

void read_finished_part(const query& row, message_record& into)
{
    into.state = state_of(static_cast<row_state>(row.integer(22)));
    into.finished_at = row.time_or_none(23);
    into.started_at = row.time_or_none(24);
    into.failed_at = row.time_or_none(25);
    into.attempts = static_cast<int>(row.integer(26));
    into.errors = static_cast<int>(row.integer(27));
    into.redrives = static_cast<int>(row.integer(28));
    into.fence = fence{row.integer(29)};
    into.worker = row.text(30);
    into.last_error = row.text(31);
    if (!row.is_null(33)) { // what was never in the queue had nothing of these
        into.priority = static_cast<int>(row.integer(32));
        into.due_at = row.time(33);
        into.expires_at = row.time_or_none(34);
    }
}

} // namespace

std::optional<message_record> reader::find(message_id id)
{
    const auto seq = find_seq(db_, id);
    return seq ? load(*seq, true) : std::nullopt;
}

std::optional<message_record> reader::load(std::int64_t seq, bool with_payload)
{
    message_record result;
    bool in_a_batch = false;
    {
        auto row = db_.use(sql::message_row::text);
        row.bind(sql::message_row::seq, seq)
            .bind(sql::message_row::with_payload, std::int64_t{with_payload});
        if (!row.step())
            return std::nullopt;
        result.position = seq;
        result.id = row.id(0);
        result.created_at = row.time(1);
        result.due_at = result.created_at;
        result.topic = row.text(2);
        result.ordering_key = row.text(3);
        result.correlation_id = row.text(4);
        result.causation_id = row.text(5);
        result.headers = core::headers_from_json(row.text(6));
        result.payload_bytes = static_cast<std::size_t>(row.integer(7));
        result.payload = row.text(8);
        const bool queued = !row.is_null(9);
        const bool finished = !row.is_null(22);
        if (finished)
            read_finished_part(row, result);
        else if (queued)
            read_queue_part(row, result, world_.clock->now());
        else if (seq <= row.integer(35))
            result.state = message_state::claimed;
        in_a_batch = result.state == message_state::claimed;
    }
    if (in_a_batch)
        add_batch_facts(result);
    return result;
}

void reader::add_batch_facts(message_record& record)
{
    std::vector<fence> candidates{record.fence};
    if (record.fence == fence{}) {
        auto row = db_.use(sql::all_batches::text);
        candidates.clear();
        for (const auto each : numbers(row))
            candidates.push_back(fence{each});
    }
    for (const auto candidate : candidates) {
        const auto batch = batch_record::load(db_, candidate);
        const auto ordinal = batch ? batch->ordinal_of(record.position) : std::nullopt;
        if (!ordinal)
            continue;
        record.fence = candidate;
        record.worker = batch->worker();
        record.lease_until = batch->lease_until();
        record.started = batch->is_started(*ordinal);
        if (record.started) {
            record.started_at = batch->started_at(*ordinal);
            ++record.attempts;
        }
        return;
    }
}

std::vector<message_record> reader::list(const message_filter& filter)
{
    std::vector<message_record> result;
    for (const auto seq : matching_seqs(filter))
        if (auto record = load(seq, filter.with_payload))
            result.push_back(std::move(*record));
    return result;
}

std::vector<std::int64_t> reader::matching_seqs(const message_filter& filter)
{
    if (!filter.state)
        return seqs<sql::seqs_of_all>(db_, filter);
    switch (*filter.state) {
    case message_state::ready: return ready_seqs(filter);
    case message_state::waiting: return seqs_in_queue(db_, filter, row_state::waiting);
    case message_state::parked:
        return seqs_in_queue(db_, filter, row_state::parked_paused,
                             row_state::parked_without_handler);
    case message_state::claimed:
        return contract::merged(seqs_in_queue(db_, filter, row_state::claimed),
                                claimed_seqs(filter), filter.limit);
    case message_state::dead: return seqs<sql::seqs_of_dead>(db_, filter);
    case message_state::done: return seqs_finished(db_, filter, row_state::done);
    case message_state::cancelled: return seqs_finished(db_, filter, row_state::cancelled);
    case message_state::expired: return seqs_finished(db_, filter, row_state::expired);
    }
    return {};
}

// In the queue, put aside for a handler's limit, and in the log.
std::vector<std::int64_t> reader::ready_seqs(const message_filter& filter)
{
    const auto now = world_.clock->now();
    const auto in = [&](row_state which) { return seqs_in_queue(db_, filter, which, which, now); };
    auto result =
        contract::merged(in(row_state::ready), in(row_state::ready_at_limit), filter.limit);
    if (contract::takes_due(filter))
        result = contract::merged(result, seqs<sql::seqs_in_log>(db_, filter), filter.limit);
    return result;
}

// Members that came straight from the log; the queue does not know them.
std::vector<std::int64_t> reader::claimed_seqs(const message_filter& filter)
{
    std::vector<std::int64_t> fences;
    {
        auto row = db_.use(sql::all_batches::text);
        fences = numbers(row);
    }
    std::set<std::int64_t> open;
    for (const auto each : fences) {
        const auto batch = batch_record::load(db_, fence{each});
        for (std::uint32_t ordinal = 0; batch && ordinal < batch->members().size(); ++ordinal)
            if (batch->is_open(ordinal) && !batch->members()[ordinal].queued)
                open.insert(batch->members()[ordinal].seq);
    }
    std::vector<std::int64_t> result;
    for (const auto seq : open) {
        if (result.size() == filter.limit)
            break;
        auto just_this = filter;
        just_this.after_position = seq - 1;
        just_this.limit = 1;
        if (seq > filter.after_position)
            if (const auto found = seqs<sql::seqs_of_all>(db_, just_this);
                !found.empty() && found[0] == seq)
                result.push_back(seq);
    }
    return result;
}

void reader::count_log(store_stats& into)
{
    std::int64_t ahead = 0;
    std::int64_t elsewhere = 0;
    {
        auto row = db_.use(sql::log_ahead::text);
        row.step();
        ahead = row.integer(0);
        elsewhere = row.integer(1);
        into.enqueued = row.integer(2);
    }
    into.exact = ahead <= contract::countable_max;
    into.ready = std::max<std::int64_t>(0, ahead - elsewhere);
    if (!into.exact)
        return;
    auto row = db_.use(sql::count_log::text);
    row.step();
    into.ready = row.integer(0);
}

store_stats reader::count()
{
    const auto now = world_.clock->now();
    store_stats result;
    std::optional<timestamp> oldest;
    count_log(result);
    {
        auto row = db_.use(sql::oldest_in_log::text);
        if (row.step())
            oldest = row.time(0);
    }
    {
        auto row = db_.use(sql::count_queue::text);
        row.bind(sql::count_queue::now, now);
        while (row.step()) {
            const auto state = static_cast<row_state>(row.integer(0));
            const bool later = row.integer(1) != 0;
            const auto count = row.integer(2);
            if (state_of(state) == message_state::ready && !later) {
                result.ready += count;
                oldest = std::min(oldest.value_or(row.time(3)), row.time(3));
            } else if (state_of(state) == message_state::ready) {
                result.delayed += count;
                result.retrying += row.integer(4);
            } else if (state == row_state::waiting) {
                result.waiting += count;
            } else if (state_of(state) == message_state::parked) {
                result.parked += count;
            } else if (state_of(state) == message_state::dead) {
                result.dead += count;
            }
        }
    }
    {
        auto row = db_.use(sql::count_finished::text);
        while (row.step()) {
            const auto state = static_cast<row_state>(row.integer(0));
            auto& counter = state == row_state::done        ? result.done
                            : state == row_state::cancelled ? result.cancelled
                                                            : result.expired;
            counter += row.integer(1);
        }
    }
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
    if (oldest)
        result.oldest_ready = std::max(now - *oldest, duration::zero());
    return result;
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
    row.bind_text(sql::blocker_of::ordering_key, ordering_key);
    return row.step() ? std::optional{row.id(0)} : std::nullopt;
}

contract::outlook reader::outlook()
{
    auto result = look_ahead(db_, world_.clock->now());
    result.pauses = pauses();
    return result;
}

std::vector<pause_record> reader::pauses()
{
    std::vector<pause_record> result;
    auto row = db_.use(sql::pauses::text);
    while (row.step())
        result.push_back({.topic = std::string(row.text(0)), .since = row.time(1)});
    return result;
}

} // namespace posthorn::sqlite
