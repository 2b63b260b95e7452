// What a join belongs to: it is taken from the scope in which the join is opened, and passed on to
// what the join enqueues.
#include "core/lineage.hpp"
#include "core/validation.hpp"
#include "store/contract/join_book.hpp"
#include <posthorn/correlation.hpp>

#include <memory>
#include <utility>

namespace posthorn::contract {
namespace {

constexpr std::string_view deadline_topic = "join.deadline";

std::string trace_here()
{
    const auto scope = correlation_scope::current();
    if (!scope || scope->traceparent().empty())
        return {};
    return scope->tracestate().empty() ? scope->traceparent()
                                       : scope->traceparent() + ' ' + scope->tracestate();
}

std::string cause_here()
{
    const auto scope = correlation_scope::current();
    return scope ? scope->cause() : std::string{};
}

// The trace in which its join was opened goes on; else that of what ends the join.
std::string headers_of(const join_record& join, std::string_view trace, random_source& random)
{
    headers all{{std::string(join_header), to_string(join.id)}};
    const auto blank = trace.find(' ');
    auto scope = correlation_scope::current();
    if (!trace.empty())
        scope = std::make_shared<correlation>(correlation_start{
            .id = to_string(join.id),
            .traceparent = std::string(trace.substr(0, blank)),
            .tracestate = std::string(blank == std::string_view::npos ? std::string_view{}
                                                                      : trace.substr(blank + 1))});
    if (scope)
        core::add_trace(all, *scope, random);
    return core::headers_to_json(all);
}

} // namespace

join_id join_book::open(const join_options& how)
{
    const auto id = how.id.value_or(join_id{uuid::version_7(world_.clock->now(), *world_.random)});
    const auto scope = correlation_scope::current();
    const auto trace = trace_here();
    const auto& correlation_id =
        correlations_.insert_or_assign(id, scope ? scope->id() : to_string(id)).first->second;
    const auto number =
        table_.insert({.id = id, .how = how, .correlation_id = correlation_id, .trace = trace});
    if (!how.deadline)
        return id;
    // A message that expires without ever running: claims and looks ahead see to that.
    const auto about = to_string(id);
    new_message timer;
    timer.topic = deadline_topic;
    timer.payload = about;
    const auto causation = cause_here();
    timer.correlation_id = correlation_id;
    timer.causation_id = causation;
    timer.expiry = *how.deadline;
    const auto added = writer_.insert({&timer, 1}).front();
    table_.keep_back(added.position);
    const new_member row{.seq = added.position, .id = added.id, .role = join_role::deadline};
    table_.add(number, {&row, 1});
    return id;
}

std::string_view join_book::correlation_of(join_id which)
{
    const auto known = correlations_.find(which);
    if (known != correlations_.end())
        return known->second;
    const auto found = reader_.find(which);
    return found ? correlations_.emplace(which, found->correlation_id).first->second
                 : std::string_view{};
}

void join_book::continue_after(const std::vector<join_record>& ended,
                               const std::map<std::int64_t, message_id>& causes)
{
    std::map<std::int64_t, const join_record*> by_their_number;
    std::vector<std::int64_t> numbers;
    for (const auto& each : ended) {
        if (each.state == join_state::cancelled)
            continue;
        by_their_number.emplace(each.position, &each);
        numbers.push_back(each.position);
    }
    if (numbers.empty())
        return;
    const auto found = reader_.continuations(numbers);
    std::vector<std::string> texts; // which the views of the messages refer to
    texts.reserve(found.size() * 2);
    std::vector<new_message> messages;
    for (const auto& each : found) {
        const auto& join = *by_their_number.at(each.join);
        const auto& what = join.state == join_state::completed ? each.on_complete : each.on_fail;
        if (!what)
            continue;
        const auto& headers_json = texts.emplace_back(headers_of(join, each.trace, *world_.random));
        const auto cause = causes.find(each.join);
        const auto& causation =
            texts.emplace_back(cause == causes.end() ? cause_here() : to_string(cause->second));
        new_message next;
        next.topic = what->topic;
        next.payload = what->payload;
        next.correlation_id = each.correlation_id;
        next.causation_id = causation;
        next.headers_json = headers_json;
        messages.push_back(next);
    }
    if (!messages.empty())
        writer_.insert(messages);
}

} // namespace posthorn::contract
