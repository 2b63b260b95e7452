// How joins look: as JSON, as a bar, and in one sentence.
#pragma once

#include "app/cli/output.hpp"
#include <posthorn/joins.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace posthorn::cli {

[[nodiscard]] tint tint_of(join_state state) noexcept;

[[nodiscard]] nlohmann::ordered_json join_as_json(const join_record& what);

/// `█████░░░`: what is done, what failed, what is still to come, of all that is expected.
[[nodiscard]] std::string bar(const join_record& what, std::size_t width);

/// `3 of 5`, and of an open one `3 of 4 so far`.
[[nodiscard]] std::string progress_of(const join_record& what);

/// What a join waits for, or what became of it.
struct join_explanation {
    std::string_view reason; ///< for programs; docs/cli.md lists them
    std::string text;
    std::vector<message_id> open = {}; ///< the first members that it waits for
};
[[nodiscard]] join_explanation explain_join(store& where, const join_record& what, timestamp now);

} // namespace posthorn::cli
