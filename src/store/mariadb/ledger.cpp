// Every way a message can go once it has been claimed, cancelled or has expired.
#include "store/mariadb/ledger.hpp"

#include "store/mariadb/keys.hpp"
#include "store/mariadb/parking.hpp"
#include "store/mariadb/statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

namespace posthorn::mariadb {
namespace {

std::string endings(const std::vector<leaving>& which)
{
    std::string list = "[";
    for (const auto& each : which) {
        if (list.size() > 1)
            list += ',';
        if (each.started_at)
            fmt::format_to(std::back_inserter(list), "[{},{}]", each.which.seq,
                           each.started_at->time_since_epoch().count());
        else
            fmt::format_to(std::back_inserter(list), "[{},null]", each.which.seq);
    }
    return list + "]";
}

std::vector<std::int64_t> seqs_of(const std::vector<leaving>& which)
{
    std::vector<std::int64_t> result;
    result.reserve(which.size());
    for (const auto& each : which)
        result.push_back(each.which.seq);
    return result;
}

// The two kinds of members, each in the order of their numbers: the order in which rows are locked.
struct by_kind {
    explicit by_kind(const std::vector<leaving>& all)
    {
        for (const auto& each : all)
            (each.which.queued ? queued : plain).push_back(each);
        const auto seq = [](const leaving& each) { return each.which.seq; };
        std::ranges::sort(plain, {}, seq);
        std::ranges::sort(queued, {}, seq);
    }

    std::vector<leaving> plain;
    std::vector<leaving> queued;
};

struct locked_rows {
    std::set<std::string> heads; ///< the keys of those that are the heads of theirs
    std::vector<std::int64_t> parked;
};

locked_rows lock_queued(connection& db, const std::vector<std::int64_t>& seqs)
{
    locked_rows result;
    const auto list = json_list(seqs);
    auto row = db.use(sql::lock_queued_list::text);
    row.bind_ascii(sql::lock_queued_list::list, list);
    while (row.step()) {
        const auto where = static_cast<place>(row.integer(1));
        if (!row.is_null(2) && holds_its_key(where))
            result.heads.emplace(row.text(2));
        if (where == place::parked)
            result.parked.push_back(row.integer(0));
    }
    return result;
}

} // namespace

// What becomes of one message in the queue, in the terms of its row.
struct ledger::requeued_row {
    requeued_row(const returning& which, timestamp now)
    {
        const auto& what = *which.decision;
        const bool parks = what.become == settled_as::parked;
        const bool unharmed = parks || what.become == settled_as::released;
        dies = what.become == settled_as::dead;
        counts = !unharmed && which.from.started_at.has_value();
        failed = !unharmed && !what.error.empty();
        // A plain message has no key to block.
        where = parks                                        ? place::parked
                : !dies                                      ? place::ready
                : what.blocks_key && which.from.which.queued ? place::dead_blocking
                                                             : place::dead;
        const bool postponed = unharmed && !parks && what.delay > duration::zero();
        if (postponed || what.become == settled_as::retrying)
            due_at = now + what.delay;
        if (counts)
            started_at = which.from.started_at;
        if (failed) {
            failed_at = now;
            error = what.error;
        }
        if (dies)
            finished_at = now;
    }

    bool dies = false;
    bool counts = false;
    bool failed = false;
    place where = place::ready;
    std::optional<timestamp> due_at;
    std::optional<timestamp> started_at;
    std::optional<timestamp> failed_at;
    std::optional<timestamp> finished_at;
    std::string_view error;
};

void ledger::finish(const std::vector<leaving>& which, place as, const delivery_trace& trace)
{
    const by_kind kinds(which);
    if (!kinds.plain.empty())
        finish_plain(kinds.plain, as, trace);
    if (!kinds.queued.empty())
        finish_queued(kinds.queued, as);
}

void ledger::finish_plain(const std::vector<leaving>& which, place as, const delivery_trace& trace)
{
    const auto started_at = which.front().started_at;
    if (std::ranges::all_of(which,
                            [&](const leaving& each) { return each.started_at == started_at; })) {
        const auto seqs = json_list(seqs_of(which));
        using together = sql::finish_plain_together;
        const auto added = db_.use(together::text)
                               .bind_ascii(together::list, seqs)
                               .bind(together::state, number(as))
                               .bind(together::now, now_)
                               .bind(together::started_at, started_at)
                               .bind(together::attempts, std::int64_t{started_at.has_value()})
                               .bind(together::fence, trace.fence)
                               .bind_bytes_or_null(together::worker, trace.worker)
                               .run();
        report_ended_before(added, which.size());
        return;
    }
    const auto list = endings(which);
    using statement = sql::finish_plain;
    const auto added = db_.use(statement::text)
                           .bind_ascii(statement::list, list)
                           .bind(statement::state, number(as))
                           .bind(statement::now, now_)
                           .bind(statement::fence, trace.fence)
                           .bind_bytes_or_null(statement::worker, trace.worker)
                           .run();
    report_ended_before(added, which.size());
}

// The first end of a message stands. A second one means that it was made to wait again.
void ledger::report_ended_before(std::int64_t added, std::size_t expected) const
{
    if (added >= static_cast<std::int64_t>(expected))
        return;
    if (const auto& log = db_.environment().log)
        log(log_level::error,
            fmt::format("{} messages had ended before they were handled: another program changed "
                        "Posthorn's tables; run `posthorn doctor`",
                        static_cast<std::int64_t>(expected) - added));
}

void ledger::finish_queued(const std::vector<leaving>& which, place as)
{
    const auto seqs = seqs_of(which);
    const auto locked = lock_queued(db_, seqs);
    const auto list = endings(which);
    using statement = sql::finish_queued;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::state, number(as))
        .bind(statement::now, now_)
        .run();
    leave_queue(seqs);
    parking(db_).remove(locked.parked);
    keys(db_).go_on(locked.heads);
}

void ledger::forget_queued(const std::vector<std::int64_t>& seqs)
{
    const auto locked = lock_queued(db_, seqs);
    leave_queue(seqs);
    keys(db_).go_on(locked.heads);
}

void ledger::leave_queue(const std::vector<std::int64_t>& seqs)
{
    const auto list = json_list(seqs);
    db_.use(sql::delete_queued::text).bind_ascii(sql::delete_queued::list, list).run();
}

void ledger::delete_messages(const std::vector<std::int64_t>& seqs)
{
    if (seqs.empty())
        return;
    const auto list = json_list(seqs);
    db_.use(sql::delete_own_ids::text).bind_ascii(sql::delete_own_ids::list, list).run();
    db_.use(sql::delete_messages::text).bind_ascii(sql::delete_messages::list, list).run();
}

void ledger::forget(const std::vector<leaving>& which)
{
    const by_kind kinds(which);
    delete_messages(seqs_of(kinds.plain));
    if (kinds.queued.empty())
        return;
    const auto seqs = seqs_of(kinds.queued);
    const auto locked = lock_queued(db_, seqs);
    leave_queue(seqs);
    delete_messages(seqs);
    keys(db_).go_on(locked.heads);
}

void ledger::requeue(const std::vector<returning>& which, const delivery_trace& trace)
{
    std::vector<const returning*> plain;
    std::vector<const returning*> queued;
    for (const auto& each : which)
        (each.from.which.queued ? queued : plain).push_back(&each);
    const auto seq = [](const returning* each) { return each->from.which.seq; };
    std::ranges::sort(plain, {}, seq);
    std::ranges::sort(queued, {}, seq);
    if (!plain.empty())
        requeue_plain(plain, trace);
    if (!queued.empty())
        requeue_queued(queued);
    std::vector<parking::aside> parked;
    for (const auto& each : which)
        if (each.decision->become == settled_as::parked)
            parked.push_back({.seq = each.from.which.seq, .why = each.decision->reason});
    parking(db_).add(parked);
}

void ledger::requeue_plain(const std::vector<const returning*>& which, const delivery_trace& trace)
{
    std::map<std::int64_t, timestamp> created;
    {
        std::vector<std::int64_t> seqs;
        for (const auto* each : which)
            seqs.push_back(each->from.which.seq);
        const auto list = json_list(seqs);
        auto row = db_.use(sql::creation_of::text);
        row.bind_ascii(sql::creation_of::list, list);
        while (row.step())
            created.emplace(row.integer(0), row.time(1));
    }
    using statement = sql::requeue_plain;
    auto rows = db_.use(statement::text);
    for (const auto* each : which) {
        const requeued_row row(*each, now_);
        const auto seq = each->from.which.seq;
        rows.bind(statement::seq, seq)
            .bind(statement::place, number(row.where))
            .bind(statement::due_at, row.due_at.value_or(std::min(created[seq], now_)))
            .bind(statement::fence, trace.fence)
            .bind(statement::attempts, std::int64_t{row.counts})
            .bind(statement::errors, std::int64_t{row.failed})
            .bind(statement::started_at, row.started_at)
            .bind(statement::failed_at, row.failed_at)
            .bind(statement::finished_at, row.finished_at)
            .bind_bytes_or_null(statement::worker, trace.worker)
            .bind_bytes_or_null(statement::error, row.error)
            .end_row();
    }
    rows.run();
}

void ledger::requeue_queued(const std::vector<const returning*>& which)
{
    std::vector<std::int64_t> seqs;
    for (const auto* each : which)
        if (each->decision->become == settled_as::dead && !each->decision->blocks_key)
            seqs.push_back(each->from.which.seq);
    const auto heads = seqs.empty() ? std::set<std::string>{} : lock_queued(db_, seqs).heads;
    for (const auto* each : which) {
        const requeued_row row(*each, now_);
        using statement = sql::requeue_queued;
        db_.use(statement::text)
            .bind(statement::seq, each->from.which.seq)
            .bind(statement::place, number(row.where))
            .bind(statement::due_at, row.due_at)
            .bind(statement::now, now_)
            .bind(statement::attempts, std::int64_t{row.counts})
            .bind(statement::errors, std::int64_t{row.failed})
            .bind(statement::started_at, row.started_at)
            .bind(statement::failed_at, row.failed_at)
            .bind(statement::finished_at, row.finished_at)
            .bind_bytes_or_null(statement::error, row.error)
            .run();
    }
    keys(db_).go_on(heads);
}

} // namespace posthorn::mariadb
