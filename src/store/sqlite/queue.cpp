// The life of a batch: claimed, started, settled, renewed, or taken back.
#include "store/sqlite/queue.hpp"

#include "store/sqlite/claim.hpp"
#include "store/sqlite/ledger.hpp"
#include "store/sqlite/outlook.hpp"
#include "store/sqlite/statements.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace posthorn::sqlite {

bool queue::any_due(const contract::claim_request& request)
{
    return claim_is_worthwhile(db_, world_.clock->now(), request);
}

bool queue::log_has_more()
{
    auto row = db_.use(sql::log_position::text);
    row.step();
    return row.integer(2) > row.integer(0);
}

batch queue::claim(const contract::claim_request& request)
{
    const auto now = world_.clock->now();
    expire_due(std::max<std::size_t>(request.limit, 100));
    unpark(request);

    claim_choice choice(db_, now, request.limit);
    batch result;
    result.claimed_at = now;
    result.lease_until = now + request.lease;
    const bool empty = choice.deliveries.empty();
    const auto number = choice.last_fence + (empty ? 0 : 1);
    {
        // Also without a single delivery: what was passed over need not be read again.
        using statement = sql::advance_log;
        db_.use(statement::text)
            .bind(statement::claimed_to, choice.claimed_to)
            .bind(statement::last_fence, number)
            .run();
    }
    if (empty)
        return result;

    result.fence = fence{number};
    result.deliveries = std::move(choice.deliveries);
    batch_record record(result.fence, std::string(request.owner), std::string(request.worker), now,
                        result.lease_until, std::move(choice.members));
    if (request.start >= result.size())
        record.start_all();
    for (std::uint32_t ordinal = 0; ordinal < result.size(); ++ordinal) {
        auto& each = result.deliveries[ordinal];
        each.receipt.fence = result.fence;
        each.receipt.ordinal = ordinal;
        each.started = ordinal < request.start;
        if (each.started)
            record.start(ordinal, now);
        if (record.members()[ordinal].queued) {
            using statement = sql::mark_claimed;
            db_.use(statement::text)
                .bind(statement::fence, result.fence)
                .bind_text_or_null(statement::worker, request.worker)
                .bind(statement::seq, each.receipt.position)
                .run();
        }
    }
    record.insert(db_);
    return result;
}

// The oldest over all these topics: a look-up for the first of each, and one for every one taken.
void queue::unpark(const contract::claim_request& request)
{
    std::set<std::pair<std::int64_t, std::string_view>> first_of;
    const auto look = [&](std::string_view topic, std::int64_t after) {
        using statement = sql::next_parked;
        auto row = db_.use(statement::text);
        row.bind_text(statement::topic, topic).bind(statement::after, after);
        if (row.step())
            first_of.emplace(row.integer(0), topic);
    };
    for (const auto& each : request.unpark)
        look(each, request.unpark_after);
    for (auto limit = request.limit; limit > 0 && !first_of.empty(); --limit) {
        const auto [seq, topic] = *first_of.begin();
        first_of.erase(first_of.begin());
        db_.use(sql::unpark::text).bind(sql::unpark::seq, seq).run();
        look(topic, seq);
    }
}

std::optional<batch_record> queue::batch_of(std::string_view owner, fence which)
{
    auto found = batch_record::load(db_, which);
    return found && found->owner() == owner ? std::move(found) : std::nullopt;
}

std::vector<start_answer> queue::start(std::string_view owner, fence which,
                                       std::span<const receipt> what)
{
    const auto now = world_.clock->now();
    std::vector<start_answer> answers(what.size(), start_answer::lost);
    std::vector<contract::ended_message> late;
    auto batch = batch_record::load(db_, which);
    if (batch && (batch->owner() != owner || batch->lease_until() <= now))
        return answers;
    for (std::size_t i = 0; i < what.size(); ++i) {
        const auto ordinal = what[i].ordinal;
        if (!batch || !batch->is_open(ordinal, what[i].position)) {
            answers[i] = was_called_off(what[i]) ? start_answer::gone : start_answer::lost;
        } else if (!batch->is_started(ordinal) && expire_if_late(*batch, ordinal, now)) {
            answers[i] = start_answer::gone;
            late.push_back({.position = what[i].position, .as = message_state::expired});
        } else {
            batch->start(ordinal, now);
            answers[i] = start_answer::started;
        }
    }
    if (batch)
        batch->save(db_);
    follower_.ended(late);
    return answers;
}

bool queue::was_called_off(const receipt& what)
{
    using statement = sql::was_called_off;
    auto row = db_.use(statement::text);
    row.bind(statement::seq, what.position).bind(statement::fence, what.fence);
    return row.step();
}

// Only what has a row in the queue can have an expiry.
bool queue::expire_if_late(batch_record& batch, std::uint32_t ordinal, timestamp now)
{
    const auto& member = batch.members()[ordinal];
    if (!member.queued)
        return false;
    {
        auto row = db_.use(sql::expiry_of::text);
        row.bind(sql::expiry_of::seq, member.seq);
        if (!row.step() || row.is_null(0) || row.time(0) > now)
            return false;
    }
    batch.settle(ordinal);
    ledger(db_).finish(member, row_state::expired,
                       {.fence = batch.number(), .worker = batch.worker(), .started_at = {}}, now);
    return true;
}

contract::open_delivery queue::open_delivery_of(const batch_record& batch, std::uint32_t ordinal)
{
    const auto seq = batch.members()[ordinal].seq;
    auto row = db_.use(sql::open_delivery::text);
    row.bind(sql::open_delivery::seq, seq);
    row.step();
    return {
        .receipt = {.id = row.id(1), .position = seq, .fence = batch.number(), .ordinal = ordinal},
        .topic = std::string(row.text(0)),
        .starts_before = static_cast<int>(row.integer(2)),
        .started = batch.is_started(ordinal)};
}

std::vector<contract::open_delivery> queue::open_deliveries(std::string_view owner, fence which,
                                                            std::span<const receipt> what)
{
    std::vector<contract::open_delivery> result;
    const auto batch = batch_of(owner, which);
    if (!batch)
        return result;
    for (const auto& each : what)
        if (batch->is_open(each.ordinal, each.position))
            result.push_back(open_delivery_of(*batch, each.ordinal));
    return result;
}

std::vector<settled_as> queue::settle(std::string_view owner, fence which,
                                      std::span<const contract::decided> what, bool keep_done)
{
    std::vector<settled_as> answers(what.size(), settled_as::lost);
    auto batch = batch_of(owner, which);
    if (!batch)
        return answers;

    const auto now = world_.clock->now();
    ledger book(db_);
    std::vector<contract::ended_message> ended;
    // A receipt that stands twice in one call gets the same answer twice.
    std::vector<settled_as> became(batch->members().size(), settled_as::lost);
    for (std::size_t i = 0; i < what.size(); ++i) {
        const auto& [receipt, decision] = what[i];
        const auto ordinal = receipt.ordinal;
        if (!batch->is_open(ordinal, receipt.position)) {
            const bool ours =
                ordinal < became.size() && batch->members()[ordinal].seq == receipt.position;
            answers[i] = ours ? became[ordinal] : settled_as::lost;
            continue;
        }
        const auto& member = batch->members()[ordinal];
        const delivery_trace trace{
            .fence = which, .worker = batch->worker(), .started_at = batch->started_at(ordinal)};
        if (decision.become != settled_as::done)
            book.requeue(member, decision, trace, now);
        else if (keep_done)
            book.finish(member, row_state::done, trace, now);
        else
            book.forget(member);
        batch->settle(ordinal);
        answers[i] = became[ordinal] = decision.become;
        if (decision.become == settled_as::done || decision.become == settled_as::dead)
            ended.push_back({.position = member.seq,
                             .as = decision.become == settled_as::done ? message_state::done
                                                                       : message_state::dead});
    }
    batch->save(db_);
    follower_.ended(ended);
    return answers;
}

bool queue::renew(std::string_view owner, fence which, duration lease)
{
    using statement = sql::renew_batch;
    db_.use(statement::text)
        .bind(statement::lease_until, world_.clock->now() + lease)
        .bind(statement::fence, which)
        .bind_text(statement::owner, owner)
        .run();
    return db_.changes() == 1;
}

std::vector<contract::overdue_batch> queue::overdue_batches(std::size_t limit)
{
    std::vector<fence> numbers;
    {
        using statement = sql::overdue_batches;
        auto row = db_.use(statement::text);
        row.bind(statement::now, world_.clock->now())
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            numbers.push_back(fence{row.integer(0)});
    }
    std::vector<contract::overdue_batch> result;
    for (const auto number : numbers) {
        const auto batch = batch_record::load(db_, number);
        if (!batch)
            continue;
        contract::overdue_batch overdue{.fence = number, .owner = batch->owner(), .open = {}};
        for (std::uint32_t ordinal = 0; ordinal < batch->members().size(); ++ordinal)
            if (batch->is_open(ordinal))
                overdue.open.push_back(open_delivery_of(*batch, ordinal));
        result.push_back(std::move(overdue));
    }
    return result;
}

std::size_t queue::expire_due(std::size_t limit)
{
    const auto now = world_.clock->now();
    std::vector<std::int64_t> late;
    {
        using statement = sql::expirable;
        auto row = db_.use(statement::text);
        row.bind(statement::now, now).bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            late.push_back(row.integer(0));
    }
    ledger book(db_);
    std::vector<contract::ended_message> ended;
    for (const auto seq : late) {
        book.finish({.seq = seq, .queued = true}, row_state::expired, {}, now);
        ended.push_back({.position = seq, .as = message_state::expired});
    }
    follower_.ended(ended);
    return late.size();
}

std::size_t queue::bring_back(std::size_t limit)
{
    const auto now = world_.clock->now();
    db_.use(sql::bring_back_leases::text).bind(sql::bring_back_leases::now, now).run();
    std::vector<std::pair<std::int64_t, std::int64_t>> found; // and when each is due
    {
        using statement = sql::written_ahead;
        auto row = db_.use(statement::text);
        row.bind(statement::now, now).bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            found.emplace_back(row.integer(0), row.integer(1));
    }
    using statement = sql::set_due;
    for (const auto& [seq, due_at] : found)
        db_.use(statement::text).bind(statement::seq, seq).bind(statement::due_at, due_at).run();
    return found.size();
}

} // namespace posthorn::sqlite
