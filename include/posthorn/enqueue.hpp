// Enqueueing: all that an application needs which only hands messages over.
#pragma once

#include <posthorn/message.hpp>
#include <posthorn/message_type.hpp>
#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <span>
#include <vector>

namespace posthorn {

/// Adds a message to the store; it exists if and only if `tx` commits.
/// Throws: `error` with `invalid_argument` before anything is written.
enqueued enqueue(transaction& tx, const message& what, const enqueue_options& how = {});

/// Adds many messages at once, all or none. Returns their locators in the same order.
std::vector<enqueued> enqueue(transaction& tx, std::span<const outgoing> messages);

/// Adds a message in a transaction of its own.
enqueued enqueue(store& where, const message& what, const enqueue_options& how = {});
std::vector<enqueued> enqueue(store& where, std::span<const outgoing> messages);

/// The same for typed messages (message_type.hpp).
template <typed_message Type>
enqueued enqueue(transaction& tx, const Type& value, const enqueue_options& how = {})
{
    return enqueue(tx, to_message(value), how);
}
template <typed_message Type>
enqueued enqueue(store& where, const Type& value, const enqueue_options& how = {})
{
    return enqueue(where, to_message(value), how);
}

/// Cancels a message that has not started.
/// Once the answer is `cancelled` (and `tx` commits) it never starts.
[[nodiscard]] cancel_answer cancel(transaction& tx, message_id id);
[[nodiscard]] cancel_answer cancel(store& where, message_id id);

} // namespace posthorn
