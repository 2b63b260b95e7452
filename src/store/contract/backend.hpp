// A backend is an open store: where sessions come from.
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/contract/session.hpp"

#include <memory>

namespace posthorn::contract {

class backend {
public:
    virtual ~backend() = default;

    /// A transaction that may write.
    virtual std::unique_ptr<session> begin() = 0;

    /// A consistent view that never blocks writers; its `commit` only ends it.
    virtual std::unique_ptr<session> read() = 0;

    /// A claim in a transaction of its own. Stores for which
    /// looking is cheaper than locking override it.
    virtual batch claim(const claim_request& request);

    virtual const posthorn::environment& environment() const = 0;
    virtual const posthorn::limits& limits() const = 0;
};

} // namespace posthorn::contract
