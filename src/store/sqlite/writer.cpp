// Enqueueing: one insert for a plain message, a second one for whatever needs a row in the queue.
#include "store/sqlite/writer.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/ledger.hpp"
#include "store/sqlite/numbered_id.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::sqlite {
namespace {

timestamp instant(const contract::moment& when, timestamp now)
{
    const auto* from_now = std::get_if<duration>(&when);
    return from_now != nullptr ? now + *from_now : std::get<timestamp>(when);
}

// Such a message is there or not, without further care: a number that stays unused does no harm.
bool takes_one_insert(const contract::new_message& what)
{
    return what.ordering_key.empty() && what.dedup_key.empty() && what.priority == 0 && !what.due &&
           !what.expiry;
}

// Undoes a half-done bulk insert, so that a borrowed transaction may go on as if it had not begun.
class all_or_nothing {
public:
    explicit all_or_nothing(connection& db) : db_(db) { db_.use(sql::begin_many::text).run(); }
    all_or_nothing(const all_or_nothing&) = delete;
    all_or_nothing& operator=(const all_or_nothing&) = delete;

    void keep()
    {
        db_.use(sql::end_many::text).run();
        kept_ = true;
    }

    ~all_or_nothing()
    {
        // A full disk may have rolled everything back already;
        // then there is no savepoint to return to.
        if (!kept_ && db_.in_transaction()) {
            sqlite3_exec(db_.handle(), "ROLLBACK TO posthorn_many; RELEASE posthorn_many", nullptr,
                         nullptr, nullptr);
        }
    }

private:
    connection& db_;
    bool kept_ = false;
};

} // namespace

std::vector<enqueued> writer::insert(std::span<const contract::new_message> messages)
{
    std::vector<enqueued> result;
    result.reserve(messages.size());
    const auto now = world_.clock->now();
    if (messages.size() == 1 && takes_one_insert(messages.front())) {
        result.push_back(insert_one(messages.front(), reserve_numbers(1), now));
        return result;
    }
    all_or_nothing together(db_);
    auto number = reserve_numbers(messages.size());
    for (const auto& each : messages)
        result.push_back(insert_one(each, number++, now));
    together.keep();
    return result;
}

// The first of `count` new numbers. A duplicate leaves its number unused: gaps do no harm.
std::int64_t writer::reserve_numbers(std::size_t count)
{
    using statement = sql::reserve_numbers;
    auto row = db_.use(statement::text);
    row.bind(statement::count, static_cast<std::int64_t>(count));
    row.step();
    const auto last = row.integer(0);
    row.run();
    return last - static_cast<std::int64_t>(count) + 1;
}

message_id writer::id_for(const contract::new_message& what, std::int64_t seq, timestamp now)
{
    if (!what.id)
        return contract::make_numbered_id(seq, now, *world_.random);
    if (find_seq(db_, *what.id))
        throw error(error_code::constraint,
                    fmt::format("a message with the id {} exists already", to_string(*what.id)));
    return *what.id;
}

enqueued writer::insert_one(const contract::new_message& what, std::int64_t seq, timestamp now)
{
    if (!what.dedup_key.empty())
        if (auto known = known_duplicate(what, now))
            return *known;

    const auto id = id_for(what, seq, now);
    const auto due_at = what.due ? std::max(now, instant(*what.due, now)) : now;
    const bool plain = what.ordering_key.empty() && what.priority == 0 && due_at == now &&
                       !what.expiry.has_value();
    {
        using statement = sql::insert_message;
        db_.use(statement::text)
            .bind(statement::seq, seq)
            .bind(statement::plain, std::int64_t{plain})
            .bind(statement::own_id, std::int64_t{what.id.has_value()})
            .bind(statement::id, id)
            .bind(statement::created_at, now)
            .bind_text(statement::topic, what.topic)
            .bind_text_or_null(statement::ordering_key, what.ordering_key)
            .bind_text_or_null(statement::correlation_id, what.correlation_id)
            .bind_text_or_null(statement::causation_id, what.causation_id)
            .bind_text_or_null(statement::headers, what.headers_json)
            .bind_blob(statement::payload, what.payload)
            .run();
    }
    if (!plain) {
        using statement = sql::queue_new;
        db_.use(statement::text)
            .bind(statement::seq, seq)
            .bind_text_or_null(statement::ordering_key, what.ordering_key)
            .bind(statement::priority, std::int64_t{what.priority})
            .bind(statement::due_at, due_at)
            .bind(statement::expires_at,
                  what.expiry ? std::optional{instant(*what.expiry, now)} : std::nullopt)
            .run();
    }
    if (!what.dedup_key.empty()) {
        using statement = sql::remember_dedup;
        db_.use(statement::text)
            .bind_text(statement::topic, what.topic)
            .bind_text(statement::dedup_key, what.dedup_key)
            .bind(statement::id, id)
            .bind(statement::seq, seq)
            .bind(statement::expires_at, now + what.dedup_window)
            .run();
    }
    return {{id, seq}, false};
}

std::optional<enqueued> writer::known_duplicate(const contract::new_message& what, timestamp now)
{
    using statement = sql::find_dedup;
    auto row = db_.use(statement::text);
    row.bind_text(statement::topic, what.topic)
        .bind_text(statement::dedup_key, what.dedup_key)
        .bind(statement::now, now);
    if (!row.step())
        return std::nullopt;
    return enqueued{{row.id(0), row.integer(1)}, true};
}

cancel_answer writer::cancel(message_id id)
{
    const auto seq = find_seq(db_, id);
    if (!seq)
        return cancel_answer::not_found;
    const auto answer = cancel_at(*seq);
    if (answer == cancel_answer::cancelled) {
        const contract::ended_message ended{.position = *seq, .as = message_state::cancelled};
        follower_.ended({&ended, 1});
    }
    return answer;
}

cancel_answer writer::cancel_at(std::int64_t seq)
{
    const auto now = world_.clock->now();
    std::optional<row_state> state;
    fence claimed_with{};
    {
        auto row = db_.use(sql::queue_row::text);
        row.bind(sql::queue_row::seq, seq);
        if (row.step()) {
            state = static_cast<row_state>(row.integer(0));
            claimed_with = fence{row.integer(1)};
        }
    }
    if (!state) {
        auto row = db_.use(sql::is_finished::text);
        row.bind(sql::is_finished::seq, seq);
        if (row.step())
            return cancel_answer::too_late;
    }
    if (!state)
        return cancel_in_log(seq, now);
    if (*state == row_state::claimed)
        return cancel_claimed(seq, claimed_with, true, now);
    if (state_of(*state) == message_state::dead)
        return cancel_answer::too_late;
    ledger(db_).finish({.seq = seq, .queued = true}, row_state::cancelled, {}, now);
    return cancel_answer::cancelled;
}

// A message without a row of its own lies ahead in the log, or is a member of somebody's batch.
cancel_answer writer::cancel_in_log(std::int64_t seq, timestamp now)
{
    std::int64_t claimed_to = 0;
    {
        auto row = db_.use(sql::log_position::text);
        row.step();
        claimed_to = row.integer(0);
    }
    if (seq > claimed_to) {
        db_.use(sql::take_out_of_log::text).bind(sql::take_out_of_log::seq, seq).run();
        ledger(db_).finish({.seq = seq, .queued = false}, row_state::cancelled, {}, now);
        return cancel_answer::cancelled;
    }
    std::vector<fence> batches;
    {
        auto row = db_.use(sql::all_batches::text);
        while (row.step())
            batches.push_back(fence{row.integer(0)});
    }
    for (const auto number : batches)
        if (const auto batch = batch_record::load(db_, number); batch && batch->ordinal_of(seq))
            return cancel_claimed(seq, number, false, now);
    return cancel_answer::too_late;
}

cancel_answer writer::cancel_claimed(std::int64_t seq, fence number, bool queued, timestamp now)
{
    auto batch = batch_record::load(db_, number);
    const auto ordinal = batch ? batch->ordinal_of(seq) : std::nullopt;
    if (!ordinal || batch->is_started(*ordinal))
        return cancel_answer::too_late;
    batch->settle(*ordinal);
    batch->save(db_);
    ledger(db_).finish({.seq = seq, .queued = queued}, row_state::cancelled,
                       {.fence = number, .worker = batch->worker(), .started_at = {}}, now);
    return cancel_answer::cancelled;
}

} // namespace posthorn::sqlite
