// Joins with members in other stores: on the side of a member its ends are told to messages that
// workers carry over; on the side of the join each of them counts once.
//
// A report is told from later ones of the same member by its version. So they may arrive late,
// twice or in any order.
#include "core/join.hpp"
#include "core/join_report_headers.hpp"
#include "core/validation.hpp"
#include "store/contract/join_book.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace posthorn::contract {
namespace {

std::vector<join_report> reports_of(std::span<const join_row> rows)
{
    std::vector<join_report> result;
    for (const auto& row : rows)
        if (row.role == join_role::remote)
            result.push_back({.member = row.id, .seq = row.seq});
    return result;
}

std::vector<std::int64_t> positions_of(std::span<const join_report> reports)
{
    std::vector<std::int64_t> result;
    for (const auto& each : reports)
        result.push_back(each.seq);
    return result;
}

} // namespace

void join_book::enqueue_reports(std::span<const join_report> reports,
                                std::span<const report_address> addresses)
{
    struct text {
        std::string headers_json;
        std::string causation;
    };
    std::deque<text> texts; // which the views of the messages refer to
    std::vector<new_message> messages;
    for (const auto& [seq, to] : addresses) {
        const auto what = std::ranges::find(reports, seq, &join_report::seq);
        if (what == reports.end())
            continue;
        const auto& of = texts.emplace_back(
            text{.headers_json = core::headers_to_json({
                     {std::string(join_header), to_string(to.join)},
                     {std::string(core::report_store_header), to.store},
                     {std::string(core::report_member_header), to_string(what->member)},
                     {std::string(core::report_state_header), std::string(to_string(what->state))},
                 }),
                 .causation = to_string(what->member)});
        new_message next;
        next.topic = join_report_topic;
        next.causation_id = of.causation;
        next.headers_json = of.headers_json;
        messages.push_back(next);
    }
    if (messages.empty())
        return;
    writer_.insert(messages);
    has_enqueued_ = true;
}

// A dead message may come back; all others that have ended are followed no more.
void join_book::report_ends(std::span<const join_row> rows, std::span<const ended_message> which)
{
    auto reports = reports_of(rows);
    if (reports.empty())
        return;
    std::vector<std::int64_t> final_ones;
    for (auto& each : reports) {
        const auto end = std::ranges::find(which, each.seq, &ended_message::position);
        each.state = core::counts_as(end->as);
        if (end->as != message_state::dead)
            final_ones.push_back(each.seq);
    }
    enqueue_reports(reports, remote_.addresses_of(positions_of(reports)));
    if (!final_ones.empty())
        remote_.forget(final_ones);
}

void join_book::report_comebacks(std::span<const join_row> rows)
{
    const auto reports = reports_of(rows);
    if (!reports.empty())
        enqueue_reports(reports, remote_.addresses_of(positions_of(reports)));
}

attach_answer join_book::attach(const remote_join& to, message_id which)
{
    const auto held = table_.hold(which);
    if (!held)
        throw error(error_code::not_found,
                    fmt::format("there is no message {}: it never was, or it has ended and was "
                                "removed; nothing was attached",
                                to_string(which)));
    const auto state = core::counts_as(held->state);
    const report_address where{.seq = held->seq, .to = to};
    if (state == member_state::pending || held->state == message_state::dead) {
        if (!remote_.remember(where))
            return attach_answer::known;
        if (reports_of(table_.rows_of({&held->seq, 1})).empty()) {
            const new_member row{.seq = held->seq, .id = which, .role = join_role::remote};
            table_.add(0, {&row, 1});
        }
    }
    const join_report first{.member = which, .state = state, .seq = held->seq};
    enqueue_reports({&first, 1}, {&where, 1});
    return state == member_state::pending ? attach_answer::attached : attach_answer::counted;
}

counted_report join_book::count_report(join_id of, const join_report& what)
{
    auto found = table_.lock(of);
    if (!found)
        return {.refused = fmt::format("there is no join {} in its store", to_string(of))};
    auto& join = *found;
    const bool waits = join.state == join_state::pending;
    auto row = remote_.find_remote(join.position, what.member);
    if (!row && join.expected && join.attached >= *join.expected)
        return {.refused = fmt::format("join {} expects {} members and has {}: this one is too "
                                       "many",
                                       to_string(of), *join.expected, join.attached)};
    const bool is_new = !row;
    const bool by_hand = row && row->state != row->reported;
    if (is_new) {
        row = remote_row{.join = join.position,
                         .id = what.member,
                         .store = what.store,
                         .state = waits ? member_state::pending : member_state::left};
        join.attached += waits ? 1 : 0;
    } else if (what.version <= row->version) {
        return {.answer = report_answer::known};
    }
    row->reported = what.state;
    row->version = what.version;
    if (!waits) {
        remote_.put_remote(*row);
        return {.answer = report_answer::ended};
    }
    if (by_hand) { // the first word counts
        remote_.put_remote(*row);
        return {.answer = report_answer::known};
    }
    if (!is_new || what.state != member_state::pending)
        return {.answer = settle_remote(std::move(join), *std::move(row), what.state)};
    remote_.put_remote(*row);
    by_number joins{{join.position, join}};
    conclude(joins, {});
    return {.answer = report_answer::counted};
}

report_answer join_book::settle_remote(join_record join, remote_row row, member_state as)
{
    const auto before = std::exchange(row.state, as);
    remote_.put_remote(row);
    if (before == row.state)
        return report_answer::known;
    join.failed -= before == member_state::failed ? 1 : 0;
    join.completed -= before == member_state::completed ? 1 : 0;
    join.failed += row.state == member_state::failed ? 1 : 0;
    join.completed += row.state == member_state::completed ? 1 : 0;
    by_number joins{{join.position, join}};
    conclude(joins, {{join.position, row.id}});
    return report_answer::counted;
}

// Those that stand otherwise now than they were counted.
std::vector<remote_row> join_book::redrivable_remotes(const join_record& join)
{
    std::vector<remote_row> result;
    constexpr std::size_t page_size = 1'000;
    for (message_id after{};;) {
        const auto page = remote_.rows_of_join(join.position, after, page_size);
        for (const auto& row : page) {
            after = row.id;
            const bool unchanged = row.state == row.reported && row.state != member_state::pending;
            if (!unchanged && row.state != member_state::completed)
                result.push_back(row);
        }
        if (page.size() < page_size)
            break;
    }
    return result;
}

} // namespace posthorn::contract
