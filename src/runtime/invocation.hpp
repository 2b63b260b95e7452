// One call of one handler, whatever its form and however it ends.
#pragma once

#include "runtime/engine.hpp"

#include <memory>

namespace posthorn::runtime {

/// Runs the handler of `which` to its end on this thread, or begins it if it is asynchronous.
/// Never throws. Requires: the message counts as running.
void invoke(const std::shared_ptr<engine>& with, const running_ptr& which);

} // namespace posthorn::runtime
