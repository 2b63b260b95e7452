// The contract as plain containers: a broker that lives in memory, and a transport that speaks to
// it. It can have every fault, so the suite shows here that each of its tests can be passed.
#pragma once

#include "transport/transport_under_test.hpp"

#include <memory>

namespace posthorn::transports {

[[nodiscard]] std::unique_ptr<transport_under_test> make_broker_model();

} // namespace posthorn::transports
