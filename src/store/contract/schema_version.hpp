// What to say when tables are not of the version that this library needs.
#pragma once

#include <string_view>

namespace posthorn::contract {

/// Throws: `error` unless both are equal. `where` tells the reader which tables were looked at.
void require_version(int found, int needed, std::string_view where);

} // namespace posthorn::contract
