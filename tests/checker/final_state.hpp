// What the tables hold in the end: from a store through its public interface, or from a dump of it.
#pragma once

#include <posthorn/inbox.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/store.hpp>

#include <filesystem>
#include <optional>
#include <vector>

namespace posthorn::checker {

struct final_state {
    timestamp read_at;                    ///< when the reading began
    std::vector<message_record> messages; ///< in the order of their enqueueing

    /// What committed in the application's own tables for messages from outside, each named as
    /// often as it took effect; none: nobody has looked.
    std::optional<std::vector<inbound>> effects = {};
};

/// What its sender calls a message, if it came from outside.
[[nodiscard]] std::optional<inbound> origin_of(const message_record& row);

/// Pages through everything the store holds. The store should be quiet meanwhile.
[[nodiscard]] final_state read_final(store& where);

/// Reads a dump. Throws: `error` with `invalid_argument` naming file and line.
[[nodiscard]] final_state read_final(const std::filesystem::path& dump);

/// Writes a dump, so that a run can be judged again when its store is gone.
void write_final(const final_state& what, const std::filesystem::path& dump);

} // namespace posthorn::checker
