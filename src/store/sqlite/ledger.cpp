// Every way a message can go once it has been claimed, cancelled or has expired.
#include "store/sqlite/ledger.hpp"

#include "store/sqlite/statements.hpp"

#include <string>

namespace posthorn::sqlite {

void ledger::finish(const batch_record::member& which, row_state as, const delivery_trace& trace,
                    timestamp now)
{
    if (which.queued) {
        using statement = sql::finish_queued;
        db_.use(statement::text)
            .bind(statement::seq, which.seq)
            .bind(statement::state, number(as))
            .bind(statement::now, now)
            .bind(statement::started_at, trace.started_at)
            .bind(statement::attempts, std::int64_t{trace.started_at.has_value()})
            .run();
        leave_queue(which.seq);
        return;
    }
    using statement = sql::finish_plain;
    db_.use(statement::text)
        .bind(statement::seq, which.seq)
        .bind(statement::state, number(as))
        .bind(statement::now, now)
        .bind(statement::started_at, trace.started_at)
        .bind(statement::attempts, std::int64_t{trace.started_at.has_value()})
        .bind(statement::fence, trace.fence)
        .bind_text_or_null(statement::worker, trace.worker)
        .run();
}

void ledger::forget(const batch_record::member& which)
{
    if (which.queued)
        leave_queue(which.seq);
    db_.use(sql::delete_message::text).bind(sql::delete_message::seq, which.seq).run();
}

void ledger::requeue(const batch_record::member& which, const core::decision& what,
                     const delivery_trace& trace, timestamp now)
{
    const bool parks = what.become == settled_as::parked;
    const bool dies = what.become == settled_as::dead;
    const bool retries = what.become == settled_as::retrying;
    // What is unharmed never started: a start that was recorded is taken back.
    const bool unharmed = parks || what.become == settled_as::released;
    const bool failed = !unharmed && !what.error.empty();
    const bool postponed = what.become == settled_as::released && what.delay > duration::zero();
    const auto none = std::optional<timestamp>{};
    const auto started_at = unharmed ? none : trace.started_at;
    const auto due_at = retries || postponed ? std::optional{now + what.delay} : none;
    const auto error = failed ? std::string_view(what.error) : std::string_view{};
    const auto state = parks             ? parked_for(what.reason)
                       : !dies           ? row_state::ready
                       : what.blocks_key ? row_state::dead_blocking
                                         : row_state::dead;

    if (!which.queued) {
        using statement = sql::requeue_plain;
        db_.use(statement::text)
            .bind(statement::seq, which.seq)
            // A plain message has no key to block.
            .bind(statement::state, number(dies ? row_state::dead : state))
            .bind(statement::due_at, due_at)
            .bind(statement::now, now)
            .bind(statement::fence, trace.fence)
            .bind(statement::attempts, std::int64_t{started_at.has_value()})
            .bind(statement::errors, std::int64_t{failed})
            .bind(statement::started_at, started_at)
            .bind(statement::failed_at, failed ? std::optional{now} : none)
            .bind(statement::finished_at, dies ? std::optional{now} : none)
            .bind_text_or_null(statement::worker, trace.worker)
            .bind_text_or_null(statement::error, error)
            .run();
        return;
    }

    std::string key;
    {
        using statement = sql::requeue_queued;
        auto row = db_.use(statement::text);
        row.bind(statement::seq, which.seq)
            .bind(statement::state, number(state))
            .bind(statement::due_at, due_at)
            .bind(statement::now, now)
            .bind(statement::attempts, std::int64_t{started_at.has_value()})
            .bind(statement::errors, std::int64_t{failed})
            .bind(statement::started_at, started_at)
            .bind(statement::failed_at, failed ? std::optional{now} : none)
            .bind(statement::finished_at, dies ? std::optional{now} : none)
            .bind_text_or_null(statement::error, error);
        if (row.step())
            key = std::string(row.text(0));
        row.run();
    }
    if (dies)
        let_key_go_on(key);
}

void ledger::let_key_go_on(std::string_view ordering_key)
{
    if (ordering_key.empty())
        return;
    using statement = sql::let_key_go_on;
    db_.use(statement::text).bind_text(statement::ordering_key, ordering_key).run();
}

void ledger::leave_queue(std::int64_t seq)
{
    std::string key;
    {
        using statement = sql::delete_queued;
        auto row = db_.use(statement::text);
        row.bind(statement::seq, seq);
        if (row.step())
            key = std::string(row.text(0));
        row.run();
    }
    let_key_go_on(key);
}

} // namespace posthorn::sqlite
