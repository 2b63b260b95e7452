// The choice of a claim. Plain messages of the log have
// priority 0 and are due since they were created.
#include "store/sqlite/claim.hpp"

#include "core/validation.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/message.hpp>

#include <algorithm>
#include <utility>

namespace posthorn::sqlite {
namespace {

// The columns that both sources share, in the order of the two statements.
delivery read_message(const query& row)
{
    delivery result;
    result.receipt.position = row.integer(0);
    result.receipt.id = row.id(1);
    result.created_at = row.time(2);
    result.due_at = result.created_at;
    result.topic = row.text(3);
    result.payload = row.text(4);
    result.correlation_id = row.text(5);
    result.causation_id = row.text(6);
    result.headers = core::headers_from_json(row.text(7));
    return result;
}

} // namespace

bool priority_walk::next()
{
    auto row = db_.use(sql::next_priority::text);
    row.bind(sql::next_priority::below, priority_);
    if (!row.step())
        return false;
    priority_ = row.integer(0);
    due_since_ = row.time(1);
    return true;
}

claim_choice::claim_choice(connection& db, timestamp now, std::size_t limit)
    : db_(db), limit_(limit)
{
    {
        auto row = db_.use(sql::log_position::text);
        row.step();
        claimed_to = row.integer(0);
        last_fence = row.integer(1);
        log_end_ = row.integer(2);
    }
    deliveries.reserve(std::min<std::size_t>(limit, 1'024));
    bool log_had_its_turn = false;
    priority_walk walk(db_);
    while (room() > 0 && walk.next()) {
        const bool due = walk.due_since() <= now;
        if (walk.priority() <= 0 && !log_had_its_turn) {
            take_unprioritised(walk.priority() == 0 && due, now);
            log_had_its_turn = true;
        }
        if (walk.priority() != 0 && due)
            take_from_queue(walk.priority(), now);
    }
    if (room() > 0 && !log_had_its_turn)
        take_unprioritised(false, now);
}

void claim_choice::take_from_queue(std::int64_t priority, timestamp now)
{
    std::vector<delivery> due;
    read_queue(priority, now, due);
    for (auto& each : due)
        add(std::move(each), true);
}

// Merges the queue and the log by the time since when each message has been due.
void claim_choice::take_unprioritised(bool queue_too, timestamp now)
{
    std::vector<delivery> queued;
    std::vector<delivery> logged;
    if (queue_too)
        read_queue(0, now, queued);
    read_log(logged);

    std::size_t q = 0;
    std::size_t l = 0;
    while (room() > 0 && (q < queued.size() || l < logged.size())) {
        const bool from_queue =
            l == logged.size() ||
            (q < queued.size() && std::pair(queued[q].due_at, queued[q].receipt.position) <
                                      std::pair(logged[l].due_at, logged[l].receipt.position));
        if (from_queue) {
            add(std::move(queued[q++]), true);
        } else {
            claimed_to = logged[l].receipt.position;
            add(std::move(logged[l++]), false);
        }
    }
    if (l == logged.size())
        claimed_to = std::max(claimed_to, log_read_to_);
}

void claim_choice::read_queue(std::int64_t priority, timestamp now, std::vector<delivery>& into)
{
    using statement = sql::next_in_queue;
    auto row = db_.use(statement::text);
    row.bind(statement::priority, priority)
        .bind(statement::now, now)
        .bind(statement::limit, static_cast<std::int64_t>(room()));
    while (row.step()) {
        auto next = read_message(row);
        next.due_at = row.time(8);
        next.expires_at = row.time_or_none(9);
        next.attempt = static_cast<int>(row.integer(10)) + 1;
        next.ordering_key = row.text(11);
        next.priority = static_cast<int>(priority);
        into.push_back(std::move(next));
    }
}

void claim_choice::read_log(std::vector<delivery>& into)
{
    into.reserve(static_cast<std::size_t>(
        std::clamp<std::int64_t>(log_end_ - claimed_to, 0, static_cast<std::int64_t>(room()))));
    // A stretch without plain messages must not hold the write lock for long.
    const auto end = std::min(
        log_end_, claimed_to + std::max<std::int64_t>(20'000, static_cast<std::int64_t>(limit_)));
    using statement = sql::next_in_log;
    auto row = db_.use(statement::text);
    row.bind(statement::after, claimed_to)
        .bind(statement::to, end)
        .bind(statement::limit, static_cast<std::int64_t>(room()));
    while (row.step())
        into.push_back(read_message(row));
    log_read_to_ = into.size() < room() ? end : into.back().receipt.position;
}

void claim_choice::add(delivery&& which, bool queued)
{
    members.push_back({.seq = which.receipt.position, .queued = queued});
    deliveries.push_back(std::move(which));
}

} // namespace posthorn::sqlite
