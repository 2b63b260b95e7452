// A backend is an open store: where sessions come from.
#pragma once

#include "store/contract/bell.hpp"
#include "store/contract/key_table.hpp"
#include "store/contract/lease_desk.hpp"
#include "store/contract/message_queue.hpp"
#include "store/contract/message_writer.hpp"
#include "store/contract/outlook.hpp"
#include "store/contract/session.hpp"

#include <memory>

namespace posthorn::contract {

class backend {
public:
    virtual ~backend() = default;

    /// A transaction that may write.
    virtual std::unique_ptr<session> begin() = 0;

    /// A transaction in which batches are settled, started or renewed. In a `hurry` it throws
    /// `held_elsewhere` instead of waiting for a row, where the engine can.
    virtual std::unique_ptr<session> begin_work() { return begin(); }

    /// A consistent view that never blocks writers; its `commit` only ends it.
    virtual std::unique_ptr<session> read() = 0;

    /// A claim in a transaction of its own. Stores for which
    /// looking is cheaper than locking override it.
    virtual batch claim(const claim_request& request);

    /// An insert in a transaction of its own; one round trip where the server allows it.
    virtual std::vector<enqueued> insert(std::span<const new_message> messages);

    /// A settlement in a transaction of its own, when nothing else has to happen in it.
    virtual std::vector<settled_as> settle(std::string_view owner, fence which,
                                           std::span<const decided> what, bool keep_done);

    /// A reservation in a transaction of its own; one round trip where the server allows it.
    virtual reserved_key reserve(const key_request& what);

    /// Where leases are granted. Lifetime: that of the backend.
    virtual lease_desk& leases() = 0;

    /// What an idle worker has to know; one round trip where the server allows it.
    virtual contract::outlook outlook();

    /// A bell for one sleeper. Stores that cannot ring look instead, quickly after an enqueue and
    /// ever more seldom afterwards.
    virtual std::unique_ptr<bell> make_bell() = 0;

    virtual const posthorn::environment& environment() const = 0;
    virtual const posthorn::limits& limits() const = 0;
};

} // namespace posthorn::contract
