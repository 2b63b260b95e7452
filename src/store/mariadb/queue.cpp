// The life of a batch: claimed, started, settled, renewed, or taken back.
#include "store/mariadb/queue.hpp"

#include "store/mariadb/claim.hpp"
#include "store/mariadb/keys.hpp"
#include "store/mariadb/ledger.hpp"
#include "store/mariadb/parking.hpp"
#include "store/mariadb/savepoint.hpp"
#include "store/mariadb/statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace posthorn::mariadb {
namespace {

constexpr std::size_t admitted_at_once = 1'000;
constexpr int admissions_max = 20;

std::vector<contract::ended_message> expired_ones(const std::vector<leaving>& late)
{
    std::vector<contract::ended_message> result;
    for (const auto& each : late)
        result.push_back({.position = each.which.seq, .as = message_state::expired});
    return result;
}

std::vector<contract::ended_message> ends_of(const std::vector<leaving>& done,
                                             const std::vector<returning>& others)
{
    std::vector<contract::ended_message> result;
    for (const auto& each : done)
        result.push_back({.position = each.which.seq, .as = message_state::done});
    for (const auto& each : others)
        if (each.decision->become == settled_as::dead)
            result.push_back({.position = each.from.which.seq, .as = message_state::dead});
    return result;
}

} // namespace

queue::sight queue::look()
{
    using statement = sql::look;
    auto row = db_.use(statement::text);
    row.bind(statement::now, db_.environment().clock->database_time());
    row.step();
    return {.now = row.time(0),
            .arrived = row.integer(1) != 0,
            .stale = row.integer(2) != 0,
            .expirable = row.integer(3) != 0,
            .queued = row.integer(4) != 0};
}

bool queue::any_due(const contract::claim_request& request)
{
    const auto seen = look();
    if (seen.has_chores() && !leaves_chores())
        return true;
    {
        auto row = db_.use(sql::any_ready::text);
        row.step();
        if (row.integer(0) != 0)
            return true;
    }
    if (parking(db_).any_of({.topics = request.unpark, .after = request.unpark_after}))
        return true;
    priority_walk walk(db_);
    while (seen.queued && walk.next())
        if (walk.due_since() <= seen.now)
            return true;
    return false;
}

batch queue::claim(const contract::claim_request& request)
{
    const auto seen = look();
    const auto expire_max = std::max<std::size_t>(request.limit, 100);
    const bool later = leaves_chores();
    if (!later)
        do_chores(seen, expire_max);
    const auto unparked = parking(db_).unpark(
        {.topics = request.unpark, .after = request.unpark_after}, request.limit);

    // What expires may have been the head of a key, whose next is ready now.
    const bool queued = seen.queued || (seen.has_chores() && !later) || unparked > 0;
    claim_choice choice(db_, seen.now, request.limit, queued, front_);
    // An empty answer means that nothing is due, so it must not come from bad rows alone.
    while (remove_bad_rows(choice) && choice.deliveries.empty())
        choice = claim_choice(db_, seen.now, request.limit, queued, front_);
    if (later && seen.has_chores() && choice.deliveries.empty()) { // nor from chores left undone
        do_chores(seen, expire_max);
        choice = claim_choice(db_, seen.now, request.limit, true, front_);
        while (remove_bad_rows(choice) && choice.deliveries.empty())
            choice = claim_choice(db_, seen.now, request.limit, true, front_);
    }
    batch result;
    result.claimed_at = seen.now;
    result.lease_until = seen.now + request.lease;
    result.deliveries = std::move(choice.deliveries);
    if (!result.empty())
        record_claim(request, result, std::move(choice.members));
    return result;
}

// Rows without a message, which another program has left in the tables, do not stop a store.
bool queue::remove_bad_rows(const claim_choice& found)
{
    const auto& lost = found.without_message;
    if (lost.empty() && found.doubles.empty())
        return false;
    auto waiting = lost;
    waiting.insert(waiting.end(), found.doubles.begin(), found.doubles.end());
    const auto list = json_list(waiting);
    db_.use(sql::take_ready::text).bind_ascii(sql::take_ready::list, list).run();
    if (!lost.empty())
        ledger(db_, {}).forget_queued(lost);
    if (const auto& log = db_.environment().log)
        log(log_level::error,
            fmt::format("removed {} entries for messages that are not there, and {} that stood "
                        "twice, from number {} on: another program changed Posthorn's tables; run "
                        "`posthorn doctor`",
                        lost.size(), found.doubles.size(), std::ranges::min(waiting)));
    return true;
}

// What others held a moment ago they probably still hold.
bool queue::leaves_chores() const
{
    return front_ != nullptr && front_->leaves_chores_for() > duration::zero();
}

// Nothing here waits for another transaction: what that holds is left for later.
void queue::do_chores(const sight& seen, std::size_t expire_max)
{
    if (!seen.has_chores())
        return;
    bool left_some = false;
    if (seen.expirable)
        left_some = !expire_free(seen.now, expire_max);
    if (seen.stale)
        left_some = keys(db_).tend_stale(admitted_at_once) || left_some;
    if (seen.arrived) {
        keys::admission next;
        for (int i = 0; i < admissions_max; ++i) {
            next = keys(db_).admit_arrived(next.last, admitted_at_once);
            // What was seen is not there any more if it has expired, else others hold it.
            left_some =
                left_some || next.left_some || (i == 0 && next.found == 0 && !seen.expirable);
            if (next.found < admitted_at_once)
                break;
        }
    }
    if (front_ == nullptr)
        return;
    if (left_some)
        front_->left_chores();
    else
        front_->did_chores();
}

void queue::record_claim(const contract::claim_request& request, batch& claimed,
                         std::vector<batch_record::member> members)
{
    std::vector<std::int64_t> plain;
    std::vector<std::int64_t> queued;
    for (const auto& each : members)
        (each.queued ? queued : plain).push_back(each.seq);
    if (!plain.empty()) {
        const auto list = json_list(plain);
        db_.use(sql::take_ready::text).bind_ascii(sql::take_ready::list, list).run();
    }
    batch_record record({}, std::string(request.owner), std::string(request.worker),
                        claimed.claimed_at, claimed.lease_until, std::move(members));
    if (request.start >= claimed.size())
        record.start_all();
    for (std::uint32_t ordinal = 0; ordinal < claimed.size() && ordinal < request.start; ++ordinal)
        record.start(ordinal, claimed.claimed_at);
    claimed.fence = record.insert(db_);
    for (std::uint32_t ordinal = 0; ordinal < claimed.size(); ++ordinal) {
        auto& each = claimed.deliveries[ordinal];
        each.receipt.fence = claimed.fence;
        each.receipt.ordinal = ordinal;
        each.started = ordinal < request.start;
    }
    if (queued.empty())
        return;
    const auto list = json_list(queued);
    using statement = sql::mark_claimed;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::fence, claimed.fence)
        .bind_bytes_or_null(statement::worker, request.worker)
        .run();
}

std::optional<batch_record> queue::batch_of(std::string_view owner, fence which)
{
    auto found = batch_record::lock(db_, which);
    return found && found->owner() == owner ? std::move(found) : std::nullopt;
}

std::vector<start_answer> queue::start(std::string_view owner, fence which,
                                       std::span<const receipt> what)
{
    std::vector<start_answer> answers(what.size(), start_answer::lost);
    auto batch = batch_record::lock(db_, which);
    const auto now = db_.now(); // after the lock, for which it may have waited
    if (batch && (batch->owner() != owner || batch->lease_until() <= now))
        return answers;
    if (batch)
        expire_late(*batch, what, now);
    for (std::size_t i = 0; i < what.size(); ++i) {
        const auto ordinal = what[i].ordinal;
        if (!batch || !batch->is_open(ordinal, what[i].position)) {
            answers[i] = was_called_off(what[i]) ? start_answer::gone : start_answer::lost;
        } else {
            batch->start(ordinal, now);
            answers[i] = start_answer::started;
        }
    }
    if (batch)
        batch->save(db_);
    return answers;
}

bool queue::was_called_off(const receipt& what)
{
    using statement = sql::was_called_off;
    auto row = db_.use(statement::text);
    row.bind(statement::seq, what.position).bind(statement::fence, what.fence);
    return row.step();
}

// Ends those that have not started and may not any more. Only what has a row in the queue can have
// an expiry.
void queue::expire_late(batch_record& batch, std::span<const receipt> what, timestamp now)
{
    std::vector<std::int64_t> candidates;
    for (const auto& each : what)
        if (batch.is_open(each.ordinal, each.position) && !batch.is_started(each.ordinal) &&
            batch.members()[each.ordinal].queued)
            candidates.push_back(each.position);
    if (candidates.empty())
        return;
    std::vector<leaving> late;
    {
        const auto list = json_list(candidates);
        using statement = sql::late_among;
        auto row = db_.use(statement::text);
        row.bind_ascii(statement::list, list).bind(statement::now, now);
        while (row.step()) {
            const auto ordinal = batch.ordinal_of(row.integer(0));
            if (!ordinal) // it stands twice in one call
                continue;
            batch.settle(*ordinal);
            late.push_back({.which = batch.members()[*ordinal], .started_at = {}});
        }
    }
    ledger(db_, now).finish(late, place::expired,
                            {.fence = batch.number(), .worker = batch.worker()});
    follower_->ended(expired_ones(late));
}

std::vector<contract::open_delivery> queue::open_deliveries(
    const batch_record& batch, const std::vector<std::uint32_t>& ordinals)
{
    std::vector<contract::open_delivery> result;
    std::map<std::int64_t, std::size_t> at; // where each message is in the result
    std::vector<std::int64_t> seqs;
    std::vector<std::int64_t> queued;
    for (const auto ordinal : ordinals) {
        const auto& member = batch.members()[ordinal];
        if (!at.emplace(member.seq, result.size()).second)
            continue;
        seqs.push_back(member.seq);
        if (member.queued)
            queued.push_back(member.seq);
        contract::open_delivery each;
        each.receipt = {
            .id = {}, .position = member.seq, .fence = batch.number(), .ordinal = ordinal};
        each.started = batch.is_started(ordinal);
        result.push_back(std::move(each));
    }
    if (!seqs.empty()) {
        const auto list = json_list(seqs);
        auto row = db_.use(sql::topics_of::text);
        row.bind_ascii(sql::topics_of::list, list);
        while (row.step()) {
            auto& each = result[at.at(row.integer(0))];
            each.topic = std::string(row.text(1));
            each.receipt.id = row.id(2);
        }
    }
    if (!queued.empty()) {
        const auto list = json_list(queued);
        auto row = db_.use(sql::attempts_of::text);
        row.bind_ascii(sql::attempts_of::list, list);
        while (row.step())
            result[at.at(row.integer(0))].starts_before = static_cast<int>(row.integer(1));
    }
    return result;
}

std::vector<contract::open_delivery> queue::open_deliveries(std::string_view owner, fence which,
                                                            std::span<const receipt> what)
{
    const auto batch = batch_of(owner, which);
    if (!batch)
        return {};
    std::vector<std::uint32_t> ordinals;
    for (const auto& each : what)
        if (batch->is_open(each.ordinal, each.position))
            ordinals.push_back(each.ordinal);
    return open_deliveries(*batch, ordinals);
}

std::vector<settled_as> queue::settle(std::string_view owner, fence which,
                                      std::span<const contract::decided> what, bool keep_done)
{
    std::vector<settled_as> answers(what.size(), settled_as::lost);
    auto batch = batch_of(owner, which);
    if (!batch)
        return answers;

    std::vector<leaving> done;
    std::vector<returning> others;
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
        const leaving member{.which = batch->members()[ordinal],
                             .started_at = batch->started_at(ordinal)};
        if (decision.become == settled_as::done)
            done.push_back(member);
        else
            others.push_back({.from = member, .decision = &decision});
        batch->settle(ordinal);
        answers[i] = became[ordinal] = decision.become;
    }
    if (done.empty() && others.empty())
        return answers;

    ledger book(db_, db_.now());
    const delivery_trace trace{.fence = which, .worker = batch->worker()};
    if (!others.empty())
        book.requeue(others, trace);
    if (!done.empty() && keep_done)
        book.finish(done, place::done, trace);
    else if (!done.empty())
        book.forget(done);
    batch->save(db_);
    if (batch->followed)
        follower_->ended(ends_of(done, others));
    return answers;
}

bool queue::renew(std::string_view owner, fence which, duration lease)
{
    if (!batch_of(owner, which))
        return false;
    using statement = sql::renew_batch;
    db_.use(statement::text)
        .bind(statement::lease_until, db_.now() + lease)
        .bind(statement::fence, which)
        .run();
    return true;
}

std::vector<contract::overdue_batch> queue::overdue_batches(std::size_t limit)
{
    std::vector<contract::overdue_batch> result;
    for (const auto& batch : batch_record::lock_overdue(db_, db_.now(), limit)) {
        std::vector<std::uint32_t> open;
        for (std::uint32_t ordinal = 0; ordinal < batch.members().size(); ++ordinal)
            if (batch.is_open(ordinal))
                open.push_back(ordinal);
        result.push_back({.fence = batch.number(),
                          .owner = batch.owner(),
                          .open = open_deliveries(batch, open)});
    }
    return result;
}

std::size_t queue::expire_due(std::size_t limit)
{
    return expire_due(db_.now(), limit);
}

// What another transaction holds is left for the next time.
std::size_t queue::bring_back(std::size_t limit)
{
    const auto now = db_.now();
    std::vector<std::pair<std::int64_t, std::int64_t>> found; // numbers, and their new times
    {
        auto row = db_.use(sql::leases_ahead::text);
        row.bind(sql::leases_ahead::now, now);
        while (row.step())
            found.emplace_back(row.integer(0), row.integer(1));
    }
    const auto is_free = [this](const contract::named_statement& lock, int which,
                                std::int64_t number) {
        auto row = db_.use(lock);
        row.bind(which, number);
        return row.step();
    };
    for (const auto& [number, until] : found)
        if (is_free(sql::lock_free_batch::text, sql::lock_free_batch::fence, number)) {
            using statement = sql::renew_batch;
            db_.use(statement::text)
                .bind(statement::fence, number)
                .bind(statement::lease_until, until)
                .run();
        }
    found.clear();
    {
        using statement = sql::written_ahead;
        auto row = db_.use(statement::text);
        row.bind(statement::now, now).bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            found.emplace_back(row.integer(0), row.integer(1));
    }
    std::erase_if(found, [&](const auto& each) {
        return !is_free(sql::lock_free_queued::text, sql::lock_free_queued::seq, each.first);
    });
    using statement = sql::set_due;
    for (const auto& [seq, due_at] : found)
        db_.use(statement::text).bind(statement::seq, seq).bind(statement::due_at, due_at).run();
    return found.size();
}

std::vector<leaving> queue::lock_expirable(timestamp now, std::size_t limit)
{
    std::vector<leaving> late;
    using statement = sql::expirable;
    auto row = db_.use(statement::text);
    row.bind(statement::now, now).bind(statement::limit, static_cast<std::int64_t>(limit));
    while (row.step())
        late.push_back({.which = {.seq = row.integer(0), .queued = true}, .started_at = {}});
    return late;
}

void queue::expire(const std::vector<leaving>& late, timestamp now)
{
    ledger(db_, now).finish(late, place::expired, {});
    follower_->ended(expired_ones(late));
}

std::size_t queue::expire_due(timestamp now, std::size_t limit)
{
    const auto late = lock_expirable(now, limit);
    expire(late, now);
    return late.size();
}

// Together, and one by one only if another transaction holds what one of them touches: its join.
bool queue::expire_free(timestamp now, std::size_t limit)
{
    const auto late = lock_expirable(now, limit);
    if (late.empty())
        return false;
    const connection::no_waiting at_once(db_);
    const auto try_to_expire = [&](const std::vector<leaving>& which) {
        try {
            savepoint together(db_, "posthorn_chore");
            expire(which, now);
            together.keep();
            return true;
        } catch (const contract::held_elsewhere&) {
            if (!db_.in_transaction())
                throw;
            return false;
        }
    };
    if (try_to_expire(late))
        return true;
    bool all = late.size() > 1;
    for (const auto& each : late)
        all = late.size() > 1 && try_to_expire({each}) && all;
    return all;
}

} // namespace posthorn::mariadb
