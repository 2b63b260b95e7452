// Enqueueing: check everything, give it an id, hand it to the store.
#include "core/validation.hpp"
#include "store/contract/message_writer.hpp"
#include "store/contract/session.hpp"
#include <posthorn/enqueue.hpp>

#include <string>

namespace posthorn {
namespace {

contract::new_message prepared(const message& what, const enqueue_options& how,
                               std::string_view headers_json)
{
    contract::new_message result{.id = how.id,
                                 .topic = what.topic,
                                 .payload = what.payload,
                                 .ordering_key = how.ordering_key,
                                 .correlation_id = how.correlation_id,
                                 .causation_id = how.causation_id,
                                 .headers_json = headers_json,
                                 .priority = how.priority,
                                 .due = {},
                                 .expiry = {},
                                 .dedup_key = how.dedup_key,
                                 .dedup_window = how.dedup_window};
    if (how.delay)
        result.due = *how.delay;
    else if (how.due_at)
        result.due = *how.due_at;
    if (how.expires_after)
        result.expiry = *how.expires_after;
    else if (how.expires_at)
        result.expiry = *how.expires_at;
    return result;
}

} // namespace

enqueued enqueue(transaction& tx, const message& what, const enqueue_options& how)
{
    auto& session = tx.session();
    core::check_message(what, how, session.limits());
    core::check_start_window(how, session.environment().clock->now());
    const auto headers_json = core::headers_to_json(how.headers);
    const auto only = prepared(what, how, headers_json);
    return session.writer().insert({&only, 1}).front();
}

std::vector<enqueued> enqueue(transaction& tx, std::span<const outgoing> messages)
{
    auto& session = tx.session();
    std::vector<std::string> headers_json;
    std::vector<contract::new_message> all;
    const auto now = session.environment().clock->now();
    headers_json.reserve(messages.size());
    all.reserve(messages.size());
    for (const auto& [what, how] : messages) {
        core::check_message(what, how, session.limits());
        core::check_start_window(how, now);
        headers_json.push_back(core::headers_to_json(how.headers));
        all.push_back(prepared(what, how, headers_json.back()));
    }
    return all.empty() ? std::vector<enqueued>{} : session.writer().insert(all);
}

enqueued enqueue(store& where, const message& what, const enqueue_options& how)
{
    auto tx = where.begin();
    auto result = enqueue(tx, what, how);
    tx.commit();
    return result;
}

std::vector<enqueued> enqueue(store& where, std::span<const outgoing> messages)
{
    auto tx = where.begin();
    auto result = enqueue(tx, messages);
    tx.commit();
    return result;
}

cancel_answer cancel(transaction& tx, message_id id)
{
    return tx.session().writer().cancel(id);
}

cancel_answer cancel(store& where, message_id id)
{
    auto tx = where.begin();
    const auto answer = cancel(tx, id);
    tx.commit();
    return answer;
}

} // namespace posthorn
