// Keeping order: what operators and retention do to messages that have ended.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <string_view>

namespace posthorn::contract {

class message_keeper {
public:
    virtual ~message_keeper() = default;

    /// Gives a dead message new attempts, due after `delay`. False: it is not dead.
    virtual bool redrive(message_id id, duration delay) = 0;

    /// Removes a dead message. False: it is not dead.
    virtual bool purge(message_id id) = 0;

    /// Lets a blocked key go on without its dead message. False: the key is not blocked.
    virtual bool skip_key(std::string_view ordering_key) = 0;

    /// False: it was so already.
    virtual bool pause(std::string_view topic) = 0;
    virtual bool resume(std::string_view topic) = 0;

    /// Each removes at most `limit` and returns how many.
    /// Ages count from the end of a message's life.
    virtual std::size_t remove_finished(duration older_than, std::size_t limit) = 0;
    virtual std::size_t remove_dead(duration older_than, std::size_t limit) = 0;
    virtual std::size_t forget_dedup_keys(std::size_t limit) = 0;
};

} // namespace posthorn::contract
