// How a message says that it is a report to a join in another store.
#pragma once

#include <string_view>

namespace posthorn::core {

inline constexpr std::string_view report_store_header = "posthorn-join-store";
inline constexpr std::string_view report_member_header = "posthorn-join-member";
inline constexpr std::string_view report_state_header = "posthorn-join-state";

} // namespace posthorn::core
