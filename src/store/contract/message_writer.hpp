// Writing messages: the only part of the contract that an application needs which just enqueues.
#pragma once

#include <posthorn/message.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace posthorn::contract {

/// A length of time from now, or an instant; the database's clock turns the first into the second.
using moment = std::variant<duration, timestamp>;

/// A message that has passed validation. Views hold for the duration of the call.
struct new_message {
    std::optional<message_id> id; ///< else the store makes one
    std::string_view topic;
    std::string_view payload;
    std::string_view ordering_key;
    std::string_view correlation_id;
    std::string_view causation_id;
    std::string_view headers_json;
    int priority = 0;
    std::optional<moment> due;
    std::optional<moment> expiry;
    std::string_view dedup_key;
    duration dedup_window{};
    std::optional<join_id> join; ///< attached by whoever inserts; the store itself does not look
};

class message_writer {
public:
    virtual ~message_writer() = default;

    /// Adds all of them or none, also when the surrounding transaction goes on after an error.
    virtual std::vector<enqueued> insert(std::span<const new_message> messages) = 0;

    virtual cancel_answer cancel(message_id id) = 0;
};

} // namespace posthorn::contract
