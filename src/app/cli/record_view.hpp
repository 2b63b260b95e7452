// How messages look: as JSON, as rows of a table, and as everything that is known of one.
#pragma once

#include "app/cli/output.hpp"
#include <posthorn/messages.hpp>

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace posthorn::cli {

enum class payload_view { hidden, shown };

[[nodiscard]] tint tint_of(message_state state) noexcept;

[[nodiscard]] nlohmann::ordered_json record_as_json(const message_record& what,
                                                    payload_view payload);

/// Prints all that is known of one message; its payload only if that is asked for.
void print_record(const message_record& what, payload_view payload, timestamp now, output& to);

/// Which columns a list of messages has.
enum class list_view { all, dead };

/// Finds one page of messages and prints it, and where the next page starts.
void print_page(store& where, message_filter filter, list_view view, output& to);

} // namespace posthorn::cli
