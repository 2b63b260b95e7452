// The message that waits for a join, as its handler reads it.
#pragma once

#include <posthorn/joins.hpp>

#include <optional>
#include <string_view>

namespace posthorn {

/// Nothing: somebody else made a message of that topic.
[[nodiscard]] std::optional<join_wait> read_join_wait(const headers& values,
                                                      std::string_view payload);

} // namespace posthorn
