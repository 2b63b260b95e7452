// Counting under the locks of joins, and ending those whose counts say so.
#include "store/contract/join_book.hpp"

#include "core/join.hpp"
#include "core/planted.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace posthorn::contract {
namespace {

[[noreturn]] void refuse_unknown(join_id which)
{
    throw error(error_code::not_found, fmt::format("there is no join {}", to_string(which)));
}

bool concerns_its_join(const join_row& row)
{
    return row.state == member_state::pending &&
           (row.role == join_role::member || row.role == join_role::deadline);
}

std::vector<std::int64_t> positions_of(std::span<const ended_message> which)
{
    std::vector<std::int64_t> result;
    result.reserve(which.size());
    for (const auto& each : which)
        result.push_back(each.position);
    return result;
}

std::vector<std::int64_t> joins_of(std::span<const join_row> rows)
{
    std::set<std::int64_t> numbers;
    for (const auto& each : rows)
        numbers.insert(each.join);
    return {numbers.begin(), numbers.end()};
}

void add_to(std::int64_t& completed, std::int64_t& failed, member_state state, std::int64_t count)
{
    if (state == member_state::completed)
        completed += count;
    else if (state == member_state::failed)
        failed += count;
}

void count_in(join_record& join, member_state state, std::int64_t count = 1)
{
    add_to(join.completed, join.failed, state, count);
}

// What the called-off have in common: nobody handled them.
bool was_called_off(message_state state)
{
    return state == message_state::cancelled || state == message_state::expired;
}

} // namespace

void join_book::begin_gathering()
{
    gathering_ = true;
    gathered_.clear();
    gathered_back_.clear();
}

void join_book::follow_gathered()
{
    gathering_ = false;
    const auto all = std::exchange(gathered_, {});
    const auto back = std::exchange(gathered_back_, {});
    ended(all);
    came_back(back);
}

void join_book::forget_gathered() noexcept
{
    gathering_ = false;
    gathered_.clear();
    gathered_back_.clear();
}

void join_book::ended(std::span<const ended_message> which)
{
    if (gathering_) {
        gathered_.insert(gathered_.end(), which.begin(), which.end());
        return;
    }
    if constexpr (core::counts_later) {
        static std::vector<ended_message> later;
        const auto before = std::exchange(later, {which.begin(), which.end()});
        count(before);
        return;
    }
    count(which);
}

// First which joins are concerned, then their locks, then what is still open under them: somebody
// else may have counted a member, or ended a join, until we had the lock.
void join_book::count(std::span<const ended_message> which)
{
    if (which.empty())
        return;
    const auto seqs = positions_of(which);
    auto rows = table_.rows_of(seqs);
    if constexpr (!core::forgets_the_inbox)
        tell_inbox(rows, which);
    jobs_.ended(rows, which);
    report_ends(rows, which);
    std::erase_if(rows, [](const join_row& row) { return !concerns_its_join(row); });
    if (rows.empty())
        return;
    by_number joins;
    for (auto& each : table_.lock(joins_of(rows)))
        joins.emplace(each.position, std::move(each));

    std::unordered_map<std::int64_t, message_state> became;
    for (const auto& each : which)
        became.emplace(each.position, each.as);
    std::vector<join_row> completed;
    std::vector<join_row> failed;
    std::map<std::int64_t, message_id> causes;
    for (const auto& row : table_.rows_of(seqs)) {
        const auto join = joins.find(row.join);
        if (!concerns_its_join(row) || join == joins.end() ||
            join->second.state != join_state::pending)
            continue;
        const auto state = became.at(row.seq);
        if (row.role == join_role::deadline) {
            if (state != message_state::expired)
                continue; // an operator lifted the deadline
            join->second.state = join_state::failed;
            join->second.ended_by = join_end::deadline;
            causes.insert_or_assign(row.join, row.id);
            continue;
        }
        if (core::forgets_the_called_off && was_called_off(state))
            continue;
        const auto as = core::counts_as(state);
        (as == member_state::completed ? completed : failed).push_back(row);
        count_in(join->second, as);
        causes.insert_or_assign(row.join, row.id);
    }
    if (!completed.empty())
        table_.mark(completed, member_state::completed);
    if (!failed.empty())
        table_.mark(failed, member_state::failed);
    conclude(joins, causes);
}

// Messages from outside. What was called off is dead to the inbox: nobody has handled it.
void join_book::tell_inbox(std::span<const join_row> rows, std::span<const ended_message> which)
{
    std::set<std::int64_t> from_outside;
    for (const auto& row : rows)
        if (row.role == join_role::inbox)
            from_outside.insert(row.seq);
    if (from_outside.empty())
        return;
    std::vector<std::int64_t> done;
    std::vector<std::int64_t> dead;
    for (const auto& each : which)
        if (from_outside.contains(each.position))
            (each.as == message_state::done ? done : dead).push_back(each.position);
    if (!done.empty())
        inbox_.follow(done, inbox_state::done);
    if (!dead.empty())
        inbox_.follow(dead, inbox_state::dead);
}

void join_book::came_back(std::span<const std::int64_t> positions)
{
    if (gathering_) {
        gathered_back_.insert(gathered_back_.end(), positions.begin(), positions.end());
        return;
    }
    if (positions.empty())
        return;
    const auto has_failed = [](const join_row& row) {
        return row.role == join_role::member && row.state == member_state::failed;
    };
    auto rows = table_.rows_of(positions);
    std::vector<std::int64_t> from_outside;
    for (const auto& row : rows)
        if (row.role == join_role::inbox)
            from_outside.push_back(row.seq);
    if (!from_outside.empty())
        inbox_.follow(from_outside, inbox_state::seen);
    jobs_.came_back(rows);
    report_comebacks(rows);
    std::erase_if(rows, [&](const join_row& row) { return !has_failed(row); });
    if (rows.empty())
        return;
    by_number joins;
    for (auto& each : table_.lock(joins_of(rows)))
        joins.emplace(each.position, std::move(each));
    std::vector<join_row> again;
    for (const auto& row : table_.rows_of(positions)) {
        const auto join = joins.find(row.join);
        if (!has_failed(row) || join == joins.end() || join->second.state != join_state::pending)
            continue; // a join that has ended stays as it is
        again.push_back(row);
        count_in(join->second, member_state::failed, -1);
    }
    if (again.empty())
        return;
    table_.mark(again, member_state::pending);
    conclude(joins, {});
}

// A join's state says here whether something else than its counts has ended it.
void join_book::conclude(by_number& joins, const std::map<std::int64_t, message_id>& causes)
{
    std::vector<join_record> changed;
    std::vector<join_record> ended;
    std::vector<std::int64_t> numbers;
    for (auto& [number, join] : joins) {
        if (join.ended_at)
            continue;
        if (join.state == join_state::pending)
            join.state = core::verdict_of(join);
        changed.push_back(join);
        if (join.state == join_state::pending)
            continue;
        ended.push_back(join);
        numbers.push_back(number);
    }
    if (changed.empty())
        return;
    table_.save(changed);
    if (ended.empty())
        return;
    table_.let_go(numbers);
    continue_after(ended, causes);
    has_enqueued_ = true;
}

join_record join_book::locked(join_id which)
{
    auto found = table_.lock(which);
    if (!found)
        refuse_unknown(which);
    return *std::move(found);
}

void join_book::require_room(const join_record& in, std::size_t more) const
{
    if (more == 0)
        return;
    if (in.state != join_state::pending)
        throw error(error_code::constraint,
                    fmt::format("join {} has ended ({}): nothing can be attached to it",
                                to_string(in.id), to_string(in.state)));
    if (in.expected && in.attached + static_cast<std::int64_t>(more) > *in.expected)
        throw error(error_code::constraint,
                    fmt::format("join {} expects {} members and has {}: {} more are too many",
                                to_string(in.id), *in.expected, in.attached, more));
}

std::vector<attach_answer> join_book::attach(join_id to, std::span<const message_id> which)
{
    std::vector<message_id> sorted(which.begin(), which.end());
    std::ranges::sort(sorted);
    std::map<message_id, held_message> held;
    for (const auto& id : sorted) {
        if (held.contains(id))
            continue;
        const auto found = table_.hold(id);
        if (!found)
            throw error(error_code::not_found,
                        fmt::format("there is no message {}: it never was, or it has ended and was "
                                    "removed; nothing was attached",
                                    to_string(id)));
        held.emplace(id, *found);
    }
    auto join = locked(to);

    std::vector<std::int64_t> seqs;
    for (const auto& [id, message] : held)
        seqs.push_back(message.seq);
    std::set<std::int64_t> known;
    for (const auto& row : table_.rows_of(seqs))
        if (row.join == join.position && row.role == join_role::member)
            known.insert(row.seq);

    std::vector<attach_answer> answers;
    std::vector<new_member> added;
    std::map<std::int64_t, message_id> causes;
    for (const auto& id : which) {
        const auto& message = held.at(id);
        if (!known.insert(message.seq).second) {
            answers.push_back(attach_answer::known);
            continue;
        }
        const auto state = core::counts_as(message.state);
        added.push_back({.seq = message.seq, .id = id, .state = state});
        answers.push_back(state == member_state::pending ? attach_answer::attached
                                                         : attach_answer::counted);
        if (state != member_state::pending)
            causes.insert_or_assign(join.position, id);
    }
    require_room(join, added.size());
    if (added.empty())
        return answers;
    table_.add(join.position, added);
    join.attached += static_cast<std::int64_t>(added.size());
    for (const auto& each : added)
        count_in(join, each.state);
    by_number joins{{join.position, join}};
    conclude(joins, causes);
    return answers;
}

void join_book::attach_new(join_id to, std::span<const locator> which)
{
    if (which.empty())
        return;
    auto join = locked(to);
    require_room(join, which.size());
    std::vector<std::int64_t> seqs;
    std::vector<new_member> added;
    for (const auto& each : which) {
        seqs.push_back(each.position);
        added.push_back({.seq = each.position, .id = each.id});
    }
    table_.follow(seqs);
    table_.add(join.position, added);
    join.attached += static_cast<std::int64_t>(which.size());
    table_.save({&join, 1});
}

bool join_book::seal(join_id which, std::optional<std::int64_t> expected)
{
    auto join = locked(which);
    if (join.state != join_state::pending)
        return false;
    const auto number = expected.value_or(join.attached);
    if (number < join.attached)
        throw error(error_code::constraint,
                    fmt::format("join {} has {} members already: it cannot expect only {}",
                                to_string(which), join.attached, number));
    join.expected = number;
    by_number joins{{join.position, join}};
    conclude(joins, {});
    return true;
}

report_answer join_book::report(join_id of, message_id member, member_state as)
{
    const auto found = table_.hold(member);
    auto join = locked(of);
    std::optional<join_row> mine;
    if (found)
        for (const auto& row : table_.rows_of({&found->seq, 1}))
            if (row.join == join.position && row.role == join_role::member)
                mine = row;
    if (!mine) {
        if (auto row = remote_.find_remote(join.position, member)) {
            if (row->state != member_state::pending || join.state != join_state::pending)
                return row->state == as ? report_answer::known : report_answer::ended;
            return settle_remote(join, *row, as); // what its store says is kept apart
        }
        throw error(error_code::not_found,
                    fmt::format("message {} is no member of join {}: attach it first",
                                to_string(member), to_string(of)));
    }
    if (core::continues_twice && join.state != join_state::pending)
        continue_after({join}, {});
    if (mine->state == member_state::left || join.state != join_state::pending)
        return mine->state == as ? report_answer::known : report_answer::ended;
    if (mine->state != member_state::pending)
        return report_answer::known;
    table_.mark({&*mine, 1}, as);
    count_in(join, as);
    by_number joins{{join.position, join}};
    conclude(joins, {{join.position, member}});
    return report_answer::counted;
}

bool join_book::cancel(join_id which, bool members)
{
    auto join = locked(which);
    if (join.state != join_state::pending)
        return false;
    join.state = join_state::cancelled;
    join.ended_by = join_end::cancel;
    by_number joins{{join.position, join}};
    conclude(joins, {});
    if (!members)
        return true;
    gathering ends(*this); // of members that other joins wait for
    constexpr std::size_t page_size = 1'000;
    for (std::int64_t after = 0;;) {
        const auto page = reader_.members(join.position, after, page_size);
        for (const auto& each : page) {
            after = each.position;
            if (each.state == member_state::left)
                (void)writer_.cancel(each.id); // too late is an answer, too
        }
        if (page.size() < page_size)
            break;
    }
    ends.follow();
    return true;
}

// Messages first, as everywhere. A member that failed counts as its message stands now: it may have
// been redriven by itself meanwhile. The deadline does not come back: a redrive is meant to end.
std::size_t join_book::redrive(join_id which, message_keeper& keeper)
{
    const auto seen = reader_.find(which);
    if (!seen)
        refuse_unknown(which);
    if (seen->state != join_state::failed)
        return 0;
    std::vector<join_row> again;
    std::vector<join_row> completed;
    std::vector<join_row> failed;
    std::int64_t no_longer_failed = 0;
    constexpr std::size_t page_size = 1'000;
    for (std::int64_t after = 0;;) {
        const auto page = reader_.members(seen->position, after, page_size);
        for (const auto& each : page) {
            after = each.position;
            if (each.state != member_state::failed && each.state != member_state::left)
                continue;
            const auto as = stands_after_redrive(each.id, keeper);
            if (as == each.state)
                continue;
            no_longer_failed += each.state == member_state::failed ? 1 : 0;
            (as == member_state::pending     ? again
             : as == member_state::completed ? completed
                                             : failed)
                .push_back({.join = seen->position, .seq = each.position});
        }
        if (page.size() < page_size)
            break;
    }
    const auto has_a_chance = [](const remote_row& row) {
        return row.reported != member_state::failed;
    };
    if (again.empty() && completed.empty() &&
        std::ranges::none_of(redrivable_remotes(*seen), has_a_chance))
        return 0;
    auto join = locked(which);
    if (join.state != join_state::failed)
        throw error(error_code::serialization,
                    "the join changed while it was being redriven; run the transaction again",
                    {.retryable = true});
    join.state = join_state::pending;
    join.ended_by = join_end::members;
    join.ended_at.reset();
    join.deadline_at.reset();
    ++join.reopened;
    join.failed += static_cast<std::int64_t>(failed.size()) - no_longer_failed;
    join.completed += static_cast<std::int64_t>(completed.size());
    if (!again.empty())
        table_.mark(again, member_state::pending);
    if (!completed.empty())
        table_.mark(completed, member_state::completed);
    if (!failed.empty())
        table_.mark(failed, member_state::failed);
    const auto remotes = redrivable_remotes(join); // again: now they cannot change
    for (auto row : remotes) {
        if (row.state == member_state::left && join.expected && join.attached >= *join.expected)
            continue; // it came too late, and its place is taken
        join.failed -= row.state == member_state::failed ? 1 : 0;
        join.attached += row.state == member_state::left ? 1 : 0;
        row.state = row.reported;
        count_in(join, row.state);
        remote_.put_remote(row);
    }
    by_number joins{{join.position, join}};
    conclude(joins, {});
    return again.size() + completed.size() +
           static_cast<std::size_t>(std::ranges::count_if(remotes, has_a_chance));
}

// A dead message is redriven. One that was removed cannot be asked any more.
member_state join_book::stands_after_redrive(message_id member, message_keeper& keeper)
{
    if (keeper.redrive(member, duration::zero()))
        return member_state::pending;
    const auto held = table_.hold(member);
    return held ? core::counts_as(held->state) : member_state::failed;
}

bool join_book::fail_completed(join_id which)
{
    auto join = locked(which);
    if (join.state != join_state::completed)
        return false;
    join.state = join_state::failed;
    table_.save({&join, 1});
    return true;
}

enqueued join_book::wait(join_id on, const new_message& what)
{
    const auto join = locked(on);
    if (join.state != join_state::pending)
        return writer_.insert({&what, 1}).front();
    // With a due time it gets a row of its own, which can be kept back.
    auto later = what;
    later.due = duration{std::chrono::hours{1}};
    const auto added = writer_.insert({core::waits_by_trying ? &what : &later, 1}).front();
    if constexpr (!core::waits_by_trying)
        table_.keep_back(added.position);
    const new_member row{.seq = added.position, .id = added.id, .role = join_role::waiter};
    table_.add(join.position, {&row, 1});
    return added;
}

} // namespace posthorn::contract
