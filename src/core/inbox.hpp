// What the inbox and keys of commands refuse.
#pragma once

#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>

#include <string_view>

namespace posthorn::core {

/// Throws: `error` with `invalid_argument`.
void check_inbound(const inbound& from, std::string_view content_hash);

/// The message as the queue takes it. Throws: `error` with `invalid_argument` if its topic is
/// empty, or too long with the prefix.
[[nodiscard]] message from_outside(const message& what);

/// Throws: `error` with `invalid_argument`.
void check_command(const command_key& which);

} // namespace posthorn::core
