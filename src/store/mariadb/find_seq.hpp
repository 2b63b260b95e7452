// Where the message with an id lies.
#pragma once

#include "store/mariadb/connection.hpp"
#include <posthorn/id.hpp>

#include <cstdint>
#include <optional>

namespace posthorn::mariadb {

/// The number of the message with this id, whoever made the id.
[[nodiscard]] std::optional<std::int64_t> find_seq(connection& db, message_id id);

} // namespace posthorn::mariadb
