// Text of others as part of one line of a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace posthorn::core {

/// Valid UTF-8 without control characters: a space stands for each of them, so that no text begins
/// a line of its own or talks to a terminal. What is longer than `bytes_max` is cut.
[[nodiscard]] std::string on_one_line(std::string_view text, std::size_t bytes_max = 4096);

} // namespace posthorn::core
