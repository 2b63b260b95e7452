// The choice of a claim. Plain messages have priority 0 and are due since they were created.
#include "store/mariadb/claim.hpp"

#include "core/validation.hpp"
#include "store/mariadb/statements.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace posthorn::mariadb {

bool priority_walk::next()
{
    auto row = db_.use(sql::next_urgency::text);
    row.bind(sql::next_urgency::after, urgency_);
    if (!row.step())
        return false;
    urgency_ = row.integer(0);
    due_since_ = row.time(1);
    return true;
}

claim_choice::claim_choice(connection& db, timestamp now, std::size_t limit, bool look_into_queue,
                           ready_front* front)
    : db_(&db), now_(now), limit_(limit), front_(front)
{
    bool plain_had_their_turn = false;
    priority_walk walk(*db_);
    while (look_into_queue && room() > 0 && walk.next()) {
        const bool due = walk.due_since() <= now;
        if (walk.urgency() >= 0 && !plain_had_their_turn) {
            take_unprioritised(walk.urgency() == 0 && due);
            plain_had_their_turn = true;
        }
        if (walk.urgency() != 0 && due && room() > 0)
            take_from_queue(walk.urgency());
    }
    if (room() > 0 && !plain_had_their_turn)
        take_unprioritised(false);
}

void claim_choice::take_from_queue(std::int64_t urgency)
{
    for (auto& each : read_queue(urgency))
        add(std::move(each), true);
}

void claim_choice::take_unprioritised(bool queue_too)
{
    auto plain = read_ready();
    auto queued = queue_too ? read_queue(0) : std::vector<delivery>{};
    drop_doubles(plain, queued);
    const auto rank = [](const delivery& each) {
        return std::tuple(each.due_at, each.receipt.position);
    };
    std::size_t p = 0;
    std::size_t q = 0;
    std::int64_t last_taken = 0;
    while (room() > 0 && (p < plain.size() || q < queued.size())) {
        if (p == plain.size() || (q < queued.size() && rank(queued[q]) < rank(plain[p]))) {
            add(std::move(queued[q++]), true);
        } else {
            last_taken = plain[p].receipt.position;
            add(std::move(plain[p++]), false);
        }
    }
    // What was locked and not taken is still ahead.
    if (front_ != nullptr && last_taken > 0)
        front_->took(last_taken);
}

// A number that is in both tables is one message. Its row in the queue says more.
void claim_choice::drop_doubles(std::vector<delivery>& plain, const std::vector<delivery>& queued)
{
    if (plain.empty() || queued.empty())
        return;
    std::unordered_set<std::int64_t> known;
    for (const auto& each : queued)
        known.insert(each.receipt.position);
    std::erase_if(plain, [&](const delivery& each) {
        const bool twice = known.contains(each.receipt.position);
        if (twice)
            doubles.push_back(each.receipt.position);
        return twice;
    });
}

std::vector<delivery> claim_choice::read_queue(std::int64_t urgency)
{
    std::vector<delivery> result;
    {
        using statement = sql::next_in_queue;
        auto row = db_->use(statement::text);
        row.bind(statement::urgency, urgency)
            .bind(statement::now, now_)
            .bind(statement::limit, static_cast<std::int64_t>(room()));
        while (row.step()) {
            delivery next;
            next.receipt.position = row.integer(0);
            next.due_at = row.time(1);
            next.expires_at = row.time_or_none(2);
            next.attempt = static_cast<int>(row.integer(3)) + 1;
            next.ordering_key = row.text(4);
            next.priority = static_cast<int>(-urgency);
            result.push_back(std::move(next));
        }
    }
    add_messages(result);
    return result;
}

std::vector<std::int64_t> claim_choice::lock_ready()
{
    std::vector<std::int64_t> result;
    const auto& clock = *db_->environment().clock;
    const auto began = clock.monotonic();
    const auto after = front_ != nullptr ? front_->search_after(began) : 0;
    const auto wanted = room();
    {
        using statement = sql::next_ready;
        auto row = db_->use(statement::text);
        row.bind(statement::after, after).bind(statement::limit, static_cast<std::int64_t>(wanted));
        while (row.step())
            result.push_back(row.integer(0));
    }
    if (front_ != nullptr && after == 0)
        front_->walked(began, clock.monotonic());
    if (result.size() == wanted || after == 0)
        return result;
    std::vector<std::int64_t> earlier;
    {
        using statement = sql::earlier_ready;
        auto row = db_->use(statement::text);
        row.bind(statement::until, after)
            .bind(statement::limit, static_cast<std::int64_t>(wanted - result.size()));
        while (row.step())
            earlier.push_back(row.integer(0));
    }
    result.insert(result.begin(), earlier.begin(), earlier.end());
    return result;
}

std::vector<delivery> claim_choice::read_ready()
{
    std::vector<delivery> result;
    for (const auto seq : lock_ready())
        result.emplace_back().receipt.position = seq;
    add_messages(result);
    for (auto& each : result)
        each.due_at = each.created_at;
    return result;
}

// Locking and reading are two statements: one that joined them would lock the messages' rows too.
void claim_choice::add_messages(std::vector<delivery>& to)
{
    if (to.empty())
        return;
    std::vector<std::int64_t> seqs;
    seqs.reserve(to.size());
    for (const auto& each : to)
        seqs.push_back(each.receipt.position);
    const auto list = json_list(seqs);
    auto row = db_->use(sql::messages_of::text);
    row.bind_ascii(sql::messages_of::list, list);
    bool has_row = row.step();
    std::erase_if(to, [&](delivery& each) {
        if (!has_row || row.integer(0) != each.receipt.position) {
            without_message.push_back(each.receipt.position);
            return true;
        }
        each.receipt.id = row.id(1);
        each.created_at = row.time(2);
        each.topic = row.text(3);
        each.payload = row.text(4);
        each.correlation_id = row.text(5);
        each.causation_id = row.text(6);
        each.headers = core::headers_from_json(row.text(7));
        has_row = row.step();
        return false;
    });
}

void claim_choice::add(delivery&& which, bool queued)
{
    members.push_back({.seq = which.receipt.position, .queued = queued});
    deliveries.push_back(std::move(which));
}

} // namespace posthorn::mariadb
