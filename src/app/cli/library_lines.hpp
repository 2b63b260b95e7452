// What the library logs of a message, the program does not repeat. The library speaks first, and on
// the same thread as it calls the hooks in which the program would speak.
#pragma once

#include <posthorn/id.hpp>

#include <optional>
#include <string_view>

namespace posthorn::cli {

/// The first message that a line names.
[[nodiscard]] std::optional<message_id> message_named_in(std::string_view line);

/// To be called with each line of the library that is shown.
void note_library_line(std::string_view line);

/// Whether the last line of the library on this thread named this message. Says so once.
[[nodiscard]] bool library_told_of(const message_id& id);

} // namespace posthorn::cli
