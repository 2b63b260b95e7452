// Cancelling: look where the message lies, lock it there, and look again if it has moved meanwhile.
#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/find_seq.hpp"
#include "store/mariadb/ledger.hpp"
#include "store/mariadb/places.hpp"
#include "store/mariadb/statements.hpp"
#include "store/mariadb/writer.hpp"
#include <posthorn/error.hpp>

namespace posthorn::mariadb {

cancel_answer writer::cancel(message_id id)
{
    const auto seq = find_seq(db_, id);
    if (!seq)
        return cancel_answer::not_found;
    constexpr int looks_max = 5;
    for (int look = 0; look < looks_max; ++look)
        if (const auto answer = try_to_cancel(*seq)) {
            const contract::ended_message called_off{.position = *seq,
                                                     .as = message_state::cancelled};
            if (*answer == cancel_answer::cancelled)
                follower_.ended({&called_off, 1});
            return *answer;
        }
    // At REPEATABLE READ a look shows what was, not what is: only a new transaction sees more.
    throw error(error_code::serialization,
                "the message changed hands while it was being cancelled; run the transaction again",
                {.retryable = true});
}

// Nothing: the message is not any more where it was seen.
std::optional<cancel_answer> writer::try_to_cancel(std::int64_t seq)
{
    bool waits = false;
    std::optional<place> queued;
    fence claimed_with{};
    {
        auto row = db_.use(sql::whereabouts::text);
        row.bind(sql::whereabouts::seq, seq);
        if (!row.step())
            return cancel_answer::not_found;
        waits = row.integer(0) != 0;
        if (!row.is_null(1))
            queued = static_cast<place>(row.integer(1));
        claimed_with = fence{row.integer(2)};
        if (!row.is_null(3))
            return cancel_answer::too_late;
    }
    if (waits) {
        // A claim that is under way has locked this row: then this waits for its end.
        if (db_.use(sql::take_one_ready::text).bind(sql::take_one_ready::seq, seq).run() == 0)
            return std::nullopt;
        ledger(db_, db_.now())
            .finish({{.which = {.seq = seq, .queued = false}, .started_at = {}}}, place::cancelled,
                    {});
        return cancel_answer::cancelled;
    }
    if (queued == place::claimed)
        return cancel_claimed(seq, claimed_with);
    if (queued)
        return cancel_queued(seq);

    // It has no row of its own: it is a member of somebody's batch.
    std::vector<fence> batches;
    {
        auto row = db_.use(sql::batches_around::text);
        row.bind(sql::batches_around::seq, seq);
        while (row.step())
            batches.push_back(fence{row.integer(0)});
    }
    for (const auto number : batches)
        if (const auto answer = cancel_claimed(seq, number))
            return answer;
    return std::nullopt;
}

std::optional<cancel_answer> writer::cancel_queued(std::int64_t seq)
{
    {
        auto row = db_.use(sql::lock_queued::text);
        row.bind(sql::lock_queued::seq, seq);
        if (!row.step())
            return std::nullopt;
        const auto where = static_cast<place>(row.integer(0));
        if (where == place::claimed)
            return std::nullopt;
        if (state_of(where) == message_state::dead)
            return cancel_answer::too_late;
    }
    ledger(db_, db_.now())
        .finish({{.which = {.seq = seq, .queued = true}, .started_at = {}}}, place::cancelled, {});
    return cancel_answer::cancelled;
}

std::optional<cancel_answer> writer::cancel_claimed(std::int64_t seq, fence number)
{
    // Read first: most batches around a number do not have it as a member.
    if (const auto seen = batch_record::read(db_, number); !seen || !seen->ordinal_of(seq))
        return std::nullopt;
    auto batch = batch_record::lock(db_, number);
    const auto ordinal = batch ? batch->ordinal_of(seq) : std::nullopt;
    if (!ordinal)
        return std::nullopt;
    if (batch->is_started(*ordinal))
        return cancel_answer::too_late;
    batch->settle(*ordinal);
    batch->save(db_);
    ledger(db_, db_.now())
        .finish({{.which = batch->members()[*ordinal], .started_at = {}}}, place::cancelled,
                {.fence = number, .worker = batch->worker()});
    return cancel_answer::cancelled;
}

} // namespace posthorn::mariadb
