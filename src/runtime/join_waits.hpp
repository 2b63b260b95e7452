// What every worker does with messages that waited for a join.
#pragma once

#include <posthorn/handler.hpp>

namespace posthorn::runtime {

/// Enqueues the continuation, in the transaction that acknowledges the wait.
[[nodiscard]] outcome handle_join_wait(const delivery_view& which, transaction& tx);

} // namespace posthorn::runtime
