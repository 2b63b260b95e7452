// A lock that another transaction holds: not the store is in trouble, but one row.
#pragma once

#include <posthorn/error.hpp>

namespace posthorn::contract {

/// Thrown instead of waiting any longer for a row's lock. Other rows may be free: what several rows
/// share is tried again with fewer of them.
class held_elsewhere : public error {
public:
    using error::error;
};

} // namespace posthorn::contract
