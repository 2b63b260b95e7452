// From the text of an option to its value. All throw `error` with `invalid_argument`.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_state.hpp>
#include <posthorn/schedules.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace posthorn::cli {

[[nodiscard]] message_id read_id(std::string_view text);
[[nodiscard]] join_id read_join_id(std::string_view text);
[[nodiscard]] join_state read_join_state(std::string_view text);
[[nodiscard]] inbox_state read_inbox_state(std::string_view text);
[[nodiscard]] key_state read_key_state(std::string_view text);
[[nodiscard]] misfire read_misfire(std::string_view text);
[[nodiscard]] overlap read_overlap(std::string_view text);
[[nodiscard]] execution_state read_execution_state(std::string_view text);

/// 2027-03-28T01:00:00Z
[[nodiscard]] timestamp read_time(std::string_view text);

/// Takes `-` only, which stands for standard input.
[[nodiscard]] bool read_dash(std::string_view text);

/// Takes `name=value`, each name once.
[[nodiscard]] headers read_headers(const std::vector<std::string>& pairs);

} // namespace posthorn::cli
