// Looking at messages. Nothing here writes or locks.
#pragma once

#include "store/contract/outlook.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/messages.hpp>

#include <optional>
#include <vector>

namespace posthorn::contract {

class message_reader {
public:
    virtual ~message_reader() = default;

    virtual std::optional<message_record> find(message_id id) = 0;
    virtual std::vector<message_record> list(const message_filter& filter) = 0;
    virtual store_stats count() = 0;
    virtual std::vector<blocked_key> blocked_keys(std::size_t limit) = 0;
    virtual std::optional<message_id> blocker_of(std::string_view ordering_key) = 0;
    virtual contract::outlook outlook() = 0;
    virtual std::vector<pause_record> pauses() = 0;
};

} // namespace posthorn::contract
