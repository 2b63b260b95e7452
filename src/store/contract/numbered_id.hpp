// Ids that carry the number of their message, so that finding it needs no index over ids.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>

#include <cstdint>

namespace posthorn::contract {

/// A UUIDv7 whose last five bytes are `seq`. What stays random (22 bits) and the time to a quarter
/// of a microsecond keep ids of different stores apart.
/// Throws: `error` when the number does not fit.
[[nodiscard]] message_id make_numbered_id(std::int64_t seq, timestamp now, random_source& random);

/// The same id with another number, for stores that learn the number only when the row is there.
[[nodiscard]] message_id with_number(const message_id& id, std::int64_t seq);

/// The number that an id carries if Posthorn made it; any other id gives a number that is wrong.
[[nodiscard]] std::int64_t number_in(const message_id& id) noexcept;

} // namespace posthorn::contract
