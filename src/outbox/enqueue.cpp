// Enqueueing: check everything, give it an id, hand it to the store.
#include "outbox/checked_messages.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/session.hpp"
#include <posthorn/enqueue.hpp>

namespace posthorn {
namespace {

void add_all(checked_messages& into, std::span<const outgoing> messages)
{
    for (const auto& [what, how] : messages)
        into.add({.what = what, .how = how});
}

} // namespace

enqueued enqueue(transaction& tx, const message& what, const enqueue_options& how)
{
    auto& session = tx.session();
    const checked_message only({.what = what, .how = how}, session.environment(), session.limits());
    return insert_and_attach(session, {&only.value, 1}).front();
}

std::vector<enqueued> enqueue(transaction& tx, std::span<const outgoing> messages)
{
    auto& session = tx.session();
    checked_messages all(session.environment(), session.limits(), messages.size());
    add_all(all, messages);
    return messages.empty() ? std::vector<enqueued>{} : insert_and_attach(session, all.values);
}

enqueued enqueue(store& where, const message& what, const enqueue_options& how)
{
    if (how.join)
        return in_transaction(where, [&](transaction& tx) { return enqueue(tx, what, how); });
    auto& backend = where.backend();
    const checked_message only({.what = what, .how = how}, backend.environment(), backend.limits());
    return contract::run_again(where.environment(), [&] {
        return backend.insert({&only.value, 1}).front();
    });
}

std::vector<enqueued> enqueue(store& where, std::span<const outgoing> messages)
{
    auto& backend = where.backend();
    checked_messages all(backend.environment(), backend.limits(), messages.size());
    add_all(all, messages);
    if (messages.empty())
        return {};
    if (any_joins(all.values))
        return in_transaction(
            where, [&](transaction& tx) { return insert_and_attach(tx.session(), all.values); });
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
