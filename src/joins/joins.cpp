// What users call: arguments are checked here, and each call is a transaction or part of one.
#include "core/join.hpp"
#include "core/lineage.hpp"
#include "core/validation.hpp"
#include "joins/join_wait.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/session.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/error.hpp>
#include <posthorn/joins.hpp>

#include <charconv>
#include <utility>

namespace posthorn {
namespace {

constexpr std::string_view wait_header = "posthorn-join-wait";
constexpr std::string_view complete_header = "posthorn-join-on-complete";
constexpr std::string_view fail_header = "posthorn-join-on-fail";
constexpr std::string_view lenient = "lenient";

std::string text_of(const headers& values, std::string_view name)
{
    const auto found = values.find(name);
    return found == values.end() ? std::string{} : found->second;
}

} // namespace

join_id open_join(transaction& tx, const join_options& how)
{
    core::check_join(how, tx.session().limits());
    return tx.session().joins().open(how);
}

join_id open_join(store& where, const join_options& how, const stop_request& stop)
{
    return in_transaction(
        where, [&](transaction& tx) { return open_join(tx, how); }, stop);
}

std::vector<attach_answer> attach(transaction& tx, join_id to, std::span<const message_id> which)
{
    return which.empty() ? std::vector<attach_answer>{} : tx.session().joins().attach(to, which);
}

std::vector<attach_answer> attach(store& where, join_id to, std::span<const message_id> which,
                                  const stop_request& stop)
{
    return in_transaction(
        where, [&](transaction& tx) { return attach(tx, to, which); }, stop);
}

attach_answer attach(transaction& tx, join_id to, message_id which)
{
    return attach(tx, to, std::span(&which, 1)).front();
}

attach_answer attach(store& where, join_id to, message_id which, const stop_request& stop)
{
    return attach(where, to, std::span(&which, 1), stop).front();
}

bool seal_join(transaction& tx, join_id which, std::optional<std::int64_t> expected)
{
    if (expected && *expected < 0)
        throw error(error_code::invalid_argument, "a join cannot expect less than no member");
    return tx.session().joins().seal(which, expected);
}

bool seal_join(store& where, join_id which, std::optional<std::int64_t> expected)
{
    return in_transaction(where, [&](transaction& tx) { return seal_join(tx, which, expected); });
}

report_answer report_step_completed(transaction& tx, join_id of, message_id member)
{
    return tx.session().joins().report(of, member, member_state::completed);
}

report_answer report_step_completed(store& where, join_id of, message_id member)
{
    return in_transaction(where,
                          [&](transaction& tx) { return report_step_completed(tx, of, member); });
}

report_answer report_step_failed(transaction& tx, join_id of, message_id member)
{
    return tx.session().joins().report(of, member, member_state::failed);
}

report_answer report_step_failed(store& where, join_id of, message_id member)
{
    return in_transaction(where,
                          [&](transaction& tx) { return report_step_failed(tx, of, member); });
}

bool cancel_join(transaction& tx, join_id which, const cancel_join_options& how)
{
    return tx.session().joins().cancel(which, how.members);
}

// First the join, then its members: so that nobody who settles one has to wait for all of them.
bool cancel_join(store& where, join_id which, const cancel_join_options& how)
{
    const bool cancelled =
        in_transaction(where, [&](transaction& tx) { return cancel_join(tx, which); });
    constexpr std::size_t page_size = 100;
    for (std::int64_t after = 0; cancelled && how.members;) {
        const auto page = list_join_members(where, which, after, page_size);
        in_transaction(where, [&](transaction& tx) {
            contract::gathering ends(tx.session().follower());
            for (const auto& each : page)
                if (each.state == member_state::left)
                    (void)cancel(tx, each.id); // what has started goes on
            ends.follow();
            return true;
        });
        if (page.size() < page_size)
            break;
        after = page.back().position;
    }
    return cancelled;
}

std::size_t redrive_join(transaction& tx, join_id which)
{
    return tx.session().joins().redrive(which, tx.session().keeper());
}

std::size_t redrive_join(store& where, join_id which)
{
    return in_transaction(where, [&](transaction& tx) { return redrive_join(tx, which); });
}

// Both payloads one after the other: the header says where the second begins.
enqueued enqueue_join_wait(transaction& tx, const join_wait& what)
{
    auto& session = tx.session();
    core::check_join({.on_complete = what.on_complete, .on_fail = what.on_fail}, session.limits());
    const auto on_complete = what.on_complete.value_or(message{});
    const auto on_fail = what.on_fail.value_or(message{});
    headers own{{std::string(join_header), to_string(what.join)},
                {std::string(wait_header), std::to_string(on_complete.payload.size())}};
    if (what.on_complete)
        own.emplace(complete_header, on_complete.topic);
    if (what.on_fail)
        own.emplace(fail_header, on_fail.topic);
    if (!what.fail_if_any_step_failed)
        own.emplace(std::string(wait_header) + "-failures", lenient);
    const auto scope = correlation_scope::current();
    if (scope)
        core::add_trace(own, *scope, *session.environment().random);
    const auto headers_json = core::headers_to_json(own);
    const auto payload = on_complete.payload + on_fail.payload;
    contract::new_message message;
    message.topic = join_wait_topic;
    message.payload = payload;
    message.headers_json = headers_json;
    message.correlation_id = scope ? scope->id() : session.joins().correlation_of(what.join);
    if (scope)
        message.causation_id = scope->cause();
    return session.joins().wait(what.join, message);
}

enqueued enqueue_join_wait(store& where, const join_wait& what, const stop_request& stop)
{
    return in_transaction(
        where, [&](transaction& tx) { return enqueue_join_wait(tx, what); }, stop);
}

std::optional<join_wait> read_join_wait(const headers& values, std::string_view payload)
{
    const auto join = join_id::parse(text_of(values, join_header));
    const auto split = text_of(values, wait_header);
    std::size_t first_bytes = 0;
    const auto parsed = std::from_chars(split.data(), split.data() + split.size(), first_bytes).ec;
    if (!join || parsed != std::errc{} || first_bytes > payload.size())
        return std::nullopt;
    join_wait result{.join = *join};
    result.fail_if_any_step_failed =
        text_of(values, std::string(wait_header) + "-failures") != lenient;
    if (values.contains(complete_header))
        result.on_complete = message{.topic = text_of(values, complete_header),
                                     .payload = std::string(payload.substr(0, first_bytes))};
    if (values.contains(fail_header))
        result.on_fail = message{.topic = text_of(values, fail_header),
                                 .payload = std::string(payload.substr(first_bytes))};
    return result;
}

std::optional<join_record> find_join(transaction& tx, join_id which)
{
    return tx.session().joins().reader().find(which);
}

std::optional<join_record> find_join(store& where, join_id which)
{
    auto view = where.read();
    return find_join(view, which);
}

std::vector<join_record> list_joins(store& where, const join_filter& filter)
{
    auto view = where.read();
    return view.session().joins().reader().list(filter);
}

std::vector<join_member> list_join_members(store& where, join_id of, std::int64_t after_position,
                                           std::size_t limit)
{
    auto view = where.read();
    auto& reader = view.session().joins().reader();
    const auto join = reader.find(of);
    return join ? reader.members(join->position, after_position, limit)
                : std::vector<join_member>{};
}

} // namespace posthorn
