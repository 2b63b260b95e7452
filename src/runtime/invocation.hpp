// One call of one handler, whatever its form and however it ends.
#pragma once

#include "runtime/engine.hpp"

#include <memory>

namespace posthorn::runtime {

/// A message that the store could not be asked about, or begin a transaction for, comes back after
/// about this long.
inline constexpr duration without_store_pause = std::chrono::seconds{1};

/// Runs the handler of `which` to its end on this thread, or begins it if it is asynchronous.
/// What hooks throw, which must not, ends the worker. Requires: the message counts as running.
void invoke(const std::shared_ptr<engine>& with, const running_ptr& which) noexcept;

} // namespace posthorn::runtime
