// What a test wants to know of a store afterwards: what was enqueued, and what became of it.
#pragma once

#include <posthorn/message_type.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/testing/verdict.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::testing {

/// The messages of a topic (with a closing `*` of all that start so, without one of all), whatever
/// became of them, in the order of their enqueueing and with their payloads.
[[nodiscard]] std::vector<message_record> messages_of(store& where, std::string_view topic = {});

/// The same as values.
/// Throws: what the type's codec throws for a payload that it cannot read.
template <typed_message Type>
[[nodiscard]] std::vector<Type> values_of(store& where)
{
    std::vector<Type> values;
    for (const auto& each : messages_of(where, message_type<Type>::topic))
        values.push_back(runtime::decode<Type>(each.payload));
    return values;
}

/// Exactly these payloads were enqueued for the topic, in this order.
verdict was_enqueued(store& where, std::string_view topic,
                     const std::vector<std::string>& payloads);

/// The same for typed messages; they are compared by what their codec makes of them.
template <typed_message Type>
verdict was_enqueued(store& where, const std::vector<Type>& values)
{
    std::vector<std::string> payloads;
    for (const auto& each : values)
        payloads.push_back(to_message(each).payload);
    return was_enqueued(where, message_type<Type>::topic, payloads);
}

/// Nothing was enqueued for the topic; without a topic, nothing at all.
verdict nothing_was_enqueued(store& where, std::string_view topic = {});

/// The message stands there.
verdict is_in_state(store& where, message_id id, message_state expected);

/// So many messages stand there, of one topic or of all.
verdict are_in_state(store& where, message_state expected, std::size_t count,
                     std::string_view topic = {});

/// Every message has been handled: none waits, runs, is put aside, or has ended in another way.
verdict everything_is_done(store& where);

/// No message has failed for good.
verdict nothing_is_dead(store& where);

/// No message is put aside because nobody handles its topic, it is paused or at its limit.
verdict nothing_is_parked(store& where);

} // namespace posthorn::testing
