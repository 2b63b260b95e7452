// Ids that say where their message lies.
#pragma once

#include "store/sqlite/connection.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>

#include <cstdint>
#include <optional>

namespace posthorn::sqlite {

/// A UUIDv7 whose last five bytes are the message's number, so that the table needs no index of
/// ids. What stays random (22 bits) and the time to a quarter
/// of a microsecond keep ids of different stores apart.
[[nodiscard]] message_id make_numbered_id(std::int64_t seq, timestamp now, random_source& random);

/// The number of the message with this id, whoever made the id.
[[nodiscard]] std::optional<std::int64_t> find_seq(connection& db, message_id id);

} // namespace posthorn::sqlite
