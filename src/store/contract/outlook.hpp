// What an idle worker has to know about a store, in one look.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/pauses.hpp>
#include <posthorn/time.hpp>

#include <optional>
#include <string>
#include <vector>

namespace posthorn::contract {

struct outlook {
    /// Something can be claimed now, or waits for care: a lease has run out, an expiry has come, a
    /// message has arrived with a key.
    bool due = false;

    /// How long until that is so by itself: the next due time, expiry or end of a lease, on the
    /// database's clock. Nothing: only an enqueue can change it.
    std::optional<duration> next = {};

    /// The topics of which messages are parked, each once, and why the first of them is.
    struct parked_topic {
        std::string topic;
        park_reason reason{};
    };
    std::vector<parked_topic> parked = {};

    std::vector<pause_record> pauses = {};
};

} // namespace posthorn::contract
