// An event as one line of JSON, and back. README.md describes the format.
#pragma once

#include "checker/events.hpp"

#include <string>
#include <string_view>

namespace posthorn::checker {

/// Without the closing newline.
[[nodiscard]] std::string to_line(const event& what);

/// Throws: `error` with `invalid_argument`, saying what is wrong with the line.
[[nodiscard]] event parse_event(std::string_view line);

} // namespace posthorn::checker
