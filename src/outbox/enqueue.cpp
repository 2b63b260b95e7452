// Enqueueing: check everything, give it an id, hand it to the store.
#include "core/validation.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/backend.hpp"
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

// A message that passed every check, with the text that its views refer to.
struct checked_message {
    checked_message(const message& what, const enqueue_options& how, const environment& world,
                    const limits& bounds)
    {
        core::check_message(what, how, bounds);
        core::check_start_window(how, world.clock->now());
        headers_json = core::headers_to_json(how.headers);
        value = prepared(what, how, headers_json);
    }
    checked_message(const checked_message&) = delete;
    checked_message& operator=(const checked_message&) = delete;

    std::string headers_json;
    contract::new_message value;
};

struct checked_messages {
    checked_messages(std::span<const outgoing> messages, const environment& world,
                     const limits& bounds)
    {
        const auto now = world.clock->now();
        headers_json.reserve(messages.size());
        values.reserve(messages.size());
        for (const auto& [what, how] : messages) {
            core::check_message(what, how, bounds);
            core::check_start_window(how, now);
            headers_json.push_back(core::headers_to_json(how.headers));
            values.push_back(prepared(what, how, headers_json.back()));
        }
    }
    checked_messages(const checked_messages&) = delete;
    checked_messages& operator=(const checked_messages&) = delete;

    std::vector<std::string> headers_json;
    std::vector<contract::new_message> values;
};

} // namespace

enqueued enqueue(transaction& tx, const message& what, const enqueue_options& how)
{
    auto& session = tx.session();
    const checked_message only(what, how, session.environment(), session.limits());
    return session.writer().insert({&only.value, 1}).front();
}

std::vector<enqueued> enqueue(transaction& tx, std::span<const outgoing> messages)
{
    auto& session = tx.session();
    const checked_messages all(messages, session.environment(), session.limits());
    return messages.empty() ? std::vector<enqueued>{} : session.writer().insert(all.values);
}

enqueued enqueue(store& where, const message& what, const enqueue_options& how)
{
    auto& backend = where.backend();
    const checked_message only(what, how, backend.environment(), backend.limits());
    return contract::run_again(where.environment(), [&] {
        return backend.insert({&only.value, 1}).front();
    });
}

std::vector<enqueued> enqueue(store& where, std::span<const outgoing> messages)
{
    auto& backend = where.backend();
    const checked_messages all(messages, backend.environment(), backend.limits());
    if (messages.empty())
        return {};
    return contract::run_again(where.environment(), [&] { return backend.insert(all.values); });
}

cancel_answer cancel(transaction& tx, message_id id)
{
    return tx.session().writer().cancel(id);
}

cancel_answer cancel(store& where, message_id id)
{
    return in_transaction(where, [&](transaction& tx) { return cancel(tx, id); });
}

} // namespace posthorn
