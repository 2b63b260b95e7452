// Leases, as an engine keeps them: one row for each name, whose fence outlives the row.
//
// A grant belongs to a token that was made for one call to `acquire`. So the call can be repeated
// when its answer was lost, and two threads never hold the same grant.
#pragma once

#include "store/contract/bell.hpp"
#include <posthorn/leases.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::contract {

struct lease_request {
    std::string_view name;
    std::string_view token;
    std::string_view holder;
    duration length;
};

struct lease_answer {
    std::optional<posthorn::fence> granted; ///< nothing: somebody else holds it
    duration left = {};                     ///< for so long, unless it is renewed or released
};

struct held_lease {
    std::string_view name;
    std::string_view token;
    posthorn::fence fence;
};

/// Each call is a transaction of its own, and on servers one that no client can leave open: whoever
/// stands still holds no lock. All times are those of the database. Threads: safe.
class lease_desk {
public:
    virtual ~lease_desk() = default;

    /// Grants a lease that is free, or over, or this token's already.
    virtual lease_answer acquire(const lease_request& what) = 0;

    /// False: it is over, or somebody else's.
    virtual bool renew(const held_lease& which, duration length) = 0;

    /// False: it is somebody else's by now, or nobody's.
    virtual bool release(const held_lease& which) = 0;

    /// Takes it from whoever has it; with a fence, only from that one.
    /// Returns: the fence of that holder; nothing if nobody had it.
    virtual std::optional<posthorn::fence> take_away(std::string_view name,
                                                     std::optional<posthorn::fence> from) = 0;

    virtual std::optional<lease_record> find(std::string_view name) = 0;
    virtual std::vector<lease_record> list(const lease_filter& which) = 0;

    /// Rings when the lease of this name may have been released.
    virtual std::unique_ptr<bell> make_bell(std::string_view name) = 0;
};

/// What is done with leases inside somebody's transaction.
class lease_table {
public:
    virtual ~lease_table() = default;

    /// From now on nobody else is granted this lease before the transaction ends.
    /// False: this is not the fence of its holder, or the lease is over.
    virtual bool hold(std::string_view name, posthorn::fence fence) = 0;

    /// Remembers the largest fence that has come for a name. False: a larger one has come before.
    virtual bool pass(std::string_view name, posthorn::fence fence) = 0;

    /// Removes up to `limit` leases that nobody has had for so long. Returns: how many.
    virtual std::size_t remove_unused(duration older_than, std::size_t limit) = 0;
};

} // namespace posthorn::contract
