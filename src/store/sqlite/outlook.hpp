// Looking at a store without the write lock: is there anything to do, and if not, when?
#pragma once

#include "store/contract/outlook.hpp"
#include "store/sqlite/connection.hpp"

#include <span>
#include <string>

namespace posthorn::sqlite {

/// Whether a claim that takes parked messages of these topics too would find anything to do.
[[nodiscard]] bool claim_is_worthwhile(connection& db, timestamp now,
                                       std::span<const std::string> unpark);

/// Everything an idle worker has to know, except for the pauses.
[[nodiscard]] contract::outlook look_ahead(connection& db, timestamp now);

} // namespace posthorn::sqlite
