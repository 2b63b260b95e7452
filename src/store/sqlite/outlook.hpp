// Looking at a store without the write lock: is there anything to do, and if not, when?
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/contract/outlook.hpp"
#include "store/sqlite/connection.hpp"

namespace posthorn::sqlite {

/// Whether a claim, and what it takes back, would find anything to do.
[[nodiscard]] bool claim_is_worthwhile(connection& db, timestamp now,
                                       const contract::claim_request& request);

/// Everything an idle worker has to know, except for the pauses.
[[nodiscard]] contract::outlook look_ahead(connection& db, timestamp now);

} // namespace posthorn::sqlite
