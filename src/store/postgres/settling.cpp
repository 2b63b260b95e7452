// Choosing the statements: one for a batch that is done, another where outcomes differ.
#include "store/postgres/settling.hpp"

#include "store/postgres/row_state.hpp"
#include "store/postgres/statements.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace posthorn::postgres {
namespace {

std::int64_t state_for(const core::decision& what)
{
    switch (what.become) {
    case settled_as::done: return number(row_state::done);
    case settled_as::dead:
        return number(what.blocks_key ? row_state::dead_blocking : row_state::dead);
    default: return number(row_state::ready);
    }
}

// Where a message goes that is none the worse for this delivery: 0 is the queue.
std::optional<std::int64_t> place_unharmed(const core::decision& what)
{
    switch (what.become) {
    case settled_as::released: return 0;
    case settled_as::parked: return place_aside(what.reason);
    default: return std::nullopt;
    }
}

// Nothing: it stays due when it was.
std::optional<std::int64_t> delay_of(const core::decision& what)
{
    const bool postponed = what.become == settled_as::released && what.delay > duration::zero();
    if (what.become != settled_as::retrying && !postponed)
        return std::nullopt;
    return what.delay.count();
}

template <typename Statement>
arguments own_batch(std::string_view owner, fence number, const environment& world)
{
    arguments with;
    set_now(with, Statement::now, world);
    with.set_text(Statement::owner, owner).set(Statement::fence, number);
    return with;
}

} // namespace

settling::settling(std::string_view owner, fence which, std::span<const contract::decided> what,
                   bool keep_done, followed how, const environment& world)
    : what_(what)
{
    std::vector<std::int64_t> all;
    std::vector<std::int64_t> done;
    std::vector<const contract::decided*> others;
    std::unordered_set<std::int64_t> seen; // a receipt may stand twice in one call
    for (const auto& each : what) {
        if (!seen.insert(each.receipt.position).second)
            continue;
        all.push_back(each.receipt.position);
        if (each.what.become == settled_as::done)
            done.push_back(each.receipt.position);
        if (each.what.become != settled_as::done || keep_done)
            others.push_back(&each);
    }
    arguments lock = own_batch<sql::lock_batch>(owner, which, world);
    statements_.push_back({sql::lock_batch::text, std::move(lock)});
    arguments heads;
    heads.set(sql::lock_heads_of::seqs, std::span<const std::int64_t>(all));
    statements_.push_back({sql::lock_heads_of::text, std::move(heads)});
    if (how == followed::settle_none)
        unless_followed_ = all;
    // After the lock: whoever attaches a member of this batch has held it.
    arguments asked;
    asked.set(sql::open_rows_of::seqs, std::span<const std::int64_t>(all));
    asks_ = statements_.size();
    statements_.push_back({sql::open_rows_of::text, std::move(asked)});

    if (done.size() == all.size()) {
        add_uniform(keep_done ? sql::settle_done::text : sql::settle_forget::text, owner, which,
                    done, world);
    } else {
        if (!keep_done && !done.empty())
            add_uniform(sql::settle_forget::text, owner, which, done, world);
        add_mixed(owner, which, others, world);
    }

    arguments move;
    set_now(move, sql::move_heads_of_on::now, world);
    move.set(sql::move_heads_of_on::seqs, std::span<const std::int64_t>(all));
    statements_.push_back({sql::move_heads_of_on::text, std::move(move)});
}

// Both statements have the same parameters, but number them as they please.
void settling::add_uniform(const contract::named_statement& which, std::string_view owner,
                           fence number, std::span<const std::int64_t> seqs,
                           const environment& world)
{
    prepared added{which, {}, true, {seqs.begin(), seqs.end()}};
    if (which.index == sql::settle_done::text.index) {
        added.with = own_batch<sql::settle_done>(owner, number, world);
        added.with.set(sql::settle_done::seqs, seqs)
            .set(sql::settle_done::unless_followed,
                 std::span<const std::int64_t>(unless_followed_));
    } else {
        added.with.set_text(sql::settle_forget::owner, owner)
            .set(sql::settle_forget::fence, number)
            .set(sql::settle_forget::seqs, seqs)
            .set(sql::settle_forget::unless_followed,
                 std::span<const std::int64_t>(unless_followed_));
    }
    statements_.push_back(std::move(added));
}

void settling::add_mixed(std::string_view owner, fence number,
                         std::span<const contract::decided* const> what, const environment& world)
{
    using statement = sql::settle_any;
    std::vector<std::int64_t> seqs;
    std::vector<std::int64_t> states;
    std::vector<std::optional<std::int64_t>> delays;
    std::vector<std::string_view> errors;
    std::vector<std::optional<std::int64_t>> unharmed;
    for (const auto* each : what) {
        const auto& decision = each->what;
        seqs.push_back(each->receipt.position);
        states.push_back(state_for(decision));
        delays.push_back(delay_of(decision));
        unharmed.push_back(place_unharmed(decision));
        errors.push_back(unharmed.back() ? std::string_view{} : decision.error);
    }
    prepared added{statement::text, own_batch<statement>(owner, number, world), true, seqs};
    added.with.set(statement::unless_followed, std::span<const std::int64_t>(unless_followed_))
        .set(statement::seqs, std::span<const std::int64_t>(seqs))
        .set(statement::states, std::span<const std::int64_t>(states))
        .set(statement::delays, std::span<const std::optional<std::int64_t>>(delays))
        .set_or_null(statement::errors, errors)
        .set(statement::unharmed, std::span<const std::optional<std::int64_t>>(unharmed));
    statements_.push_back(std::move(added));
}

std::vector<step> settling::steps() const
{
    std::vector<step> result;
    for (const auto& each : statements_)
        result.push_back({each.which, each.with});
    return result;
}

bool settling::any_followed(const std::vector<rows>& results) const
{
    return !results[asks_].empty();
}

std::vector<settled_as> settling::answers(const std::vector<rows>& results) const
{
    std::unordered_set<std::int64_t> settled;
    for (std::size_t i = 0; i < statements_.size(); ++i) {
        if (!statements_[i].settles)
            continue;
        // The first row counts; only if some are missing the others say which are not.
        if (results[i].integer(0, 0) == static_cast<std::int64_t>(statements_[i].seqs.size()))
            settled.insert(statements_[i].seqs.begin(), statements_[i].seqs.end());
        for (int row = 1; row < results[i].size(); ++row)
            settled.insert(results[i].integer(row, 0));
    }
    // A receipt that stands twice gets the answer to its first outcome twice.
    std::unordered_map<std::int64_t, settled_as> first;
    std::vector<settled_as> answers;
    answers.reserve(what_.size());
    for (const auto& [receipt, decision] : what_)
        answers.push_back(settled.contains(receipt.position)
                              ? first.emplace(receipt.position, decision.become).first->second
                              : settled_as::lost);
    return answers;
}

std::vector<contract::ended_message> settling::ends(std::span<const settled_as> answers) const
{
    std::vector<contract::ended_message> result;
    std::unordered_set<std::int64_t> seen;
    for (std::size_t i = 0; i < what_.size(); ++i) {
        const auto seq = what_[i].receipt.position;
        const bool done = answers[i] == settled_as::done;
        if ((done || answers[i] == settled_as::dead) && seen.insert(seq).second)
            result.push_back(
                {.position = seq, .as = done ? message_state::done : message_state::dead});
    }
    return result;
}

std::vector<contract::ended_message> expired_ones(const rows& ended)
{
    std::vector<contract::ended_message> result;
    for (int row = 0; row < ended.size(); ++row)
        result.push_back({.position = ended.integer(row, 0), .as = message_state::expired});
    return result;
}

waiting_messages read_waiting(const rows& found)
{
    waiting_messages result;
    for (int row = 0; row < found.size(); ++row) {
        result.seqs.push_back(found.integer(row, 0));
        result.key_of.emplace_back(found.text(row, 1));
        if (!found.text(row, 1).empty())
            result.keys.emplace_back(found.text(row, 1));
    }
    return result;
}

} // namespace posthorn::postgres
