// Publishers: messages that know what they belong to. What the caller says wins; else they belong
// to the correlation scope, with its next number; else each begins a correlation of its own.
#pragma once

#include <posthorn/correlation.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_type.hpp>
#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>
#include <posthorn/transport.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace posthorn {

/// Publishes through the outbox: what is published exists if and only if the transaction commits.
///
/// The correlation id and the causation id may be given as options, or as the headers
/// `posthorn-corr-id` and `posthorn-causation-id`; so may `posthorn-msg-id`, and together with a
/// correlation id `posthorn-corr-seq`. A `traceparent` that is not valid is left out.
/// Threads: safe to use from any.
class outbox_publisher {
public:
    explicit outbox_publisher(store where);

    /// Throws: `error` with `invalid_argument` before anything is written.
    enqueued publish(transaction& tx, const message& what, const enqueue_options& how = {});
    std::vector<enqueued> publish(transaction& tx, std::span<const outgoing> messages);

    /// The same in a transaction of its own.
    enqueued publish(const message& what, const enqueue_options& how = {});
    std::vector<enqueued> publish(std::span<const outgoing> messages);

    template <typed_message Type>
    enqueued publish(transaction& tx, const Type& value, const enqueue_options& how = {})
    {
        return publish(tx, to_message(value), how);
    }
    template <typed_message Type>
    enqueued publish(const Type& value, const enqueue_options& how = {})
    {
        return publish(to_message(value), how);
    }

private:
    store store_;
};

/// How a message is published directly. Everything is optional.
struct publish_options {
    std::optional<message_id> id = {};
    std::string key = {};
    std::string destination = {};
    std::string correlation_id = {};
    std::string causation_id = {};
    posthorn::headers headers = {}; ///< may contain ours, as for the outbox
};

struct direct_message {
    posthorn::message message;
    publish_options options = {};
};

/// What became of a message, and the id it got.
struct published : publish_answer {
    message_id id;
};

/// Publishes to a transport at once, past the outbox and whatever transaction is open: a message
/// that is not accepted is for the caller to deal with.
/// Threads: safe to use from any.
class direct_publisher {
public:
    explicit direct_publisher(std::shared_ptr<transport> to,
                              posthorn::environment world = posthorn::environment::system());

    /// Throws: `error` with `invalid_argument` before anything is sent.
    [[nodiscard]] published publish(const message& what, const publish_options& how = {},
                                    const time_limit& how_long = {});
    [[nodiscard]] std::vector<published> publish(std::span<const direct_message> messages,
                                                 const time_limit& how_long = {});

    template <typed_message Type>
    [[nodiscard]] published publish(const Type& value, const publish_options& how = {},
                                    const time_limit& how_long = {})
    {
        return publish(to_message(value), how, how_long);
    }

private:
    // Shared with whoever else publishes to it.
    std::shared_ptr<transport> to_;
    posthorn::environment world_;
};

} // namespace posthorn
