// How one of many stores is reached. Many stores share their means: open files, connections, and
// the threads that listen.
#pragma once

#include "store/contract/backend.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace posthorn::contract {

/// Listens for as long as it lives.
class subscription {
public:
    virtual ~subscription() = default;

    /// The store is busy, so nobody needs to ring; or idle again. A hint. Threads: safe.
    virtual void rest(bool asleep) = 0;

    /// Something is there that its other listeners may want, in whatever process they are. A store
    /// whose listeners hear of every write need not do anything. Threads: safe.
    virtual void ring_others() {}
};

struct reach {
    /// The store, open. It may be closed again when nobody holds it and others are needed more.
    /// Throws: `error`; may take as long as the store does to answer.
    std::function<std::shared_ptr<backend>()> open;

    /// Calls `ring` whenever something may have been enqueued, from any thread, also while the
    /// store is closed. Empty, or null in return: nobody rings, so it has to be looked at.
    std::function<std::unique_ptr<subscription>(std::function<void()> ring)> listen = {};

    /// What it shares with other stores, such as a server: if that hangs, all of them do. Empty: it
    /// stands alone.
    std::string place = {};

    /// How many stores of its kind stay open when nobody holds them; zero: being open costs
    /// nothing. Where more of them are busy, each should do much while it is open.
    std::size_t open_max = 0;
};

/// Threads: safe to use from any.
class premises {
public:
    virtual ~premises() = default;

    /// Never waits for a store. Throws: `error` with `invalid_argument` for a URL that names none.
    virtual reach way_to(const std::string& url) = 0;
};

} // namespace posthorn::contract
