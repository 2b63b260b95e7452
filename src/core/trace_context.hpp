// W3C Trace Context: which trace a message is part of. Anything that is not valid counts as none,
// because a broken trace is no reason to lose a message.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>

#include <string>
#include <string_view>

namespace posthorn::core {

/// Whether it is a `traceparent` that can be continued, of this version or a later one.
[[nodiscard]] bool is_traceparent(std::string_view text) noexcept;

/// The same trace with a new span. Requires: it is a `traceparent`.
[[nodiscard]] std::string next_traceparent(std::string_view from, random_source& random);

/// Longer ones may be cut by whoever passes them on, so they are left out.
[[nodiscard]] bool is_tracestate(std::string_view text) noexcept;

/// A header by its name in any case; empty if there is none.
[[nodiscard]] std::string_view find_header(const headers& in, std::string_view name) noexcept;

/// Takes a header out by its name in any case. False: there was none.
bool erase_header(headers& from, std::string_view name);

} // namespace posthorn::core
