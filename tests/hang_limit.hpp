// How long a test waits for what must happen. A loaded machine may need many times the usual time;
// two minutes without it are a hang. What depends on speed is measured by `./dev bench`.
#pragma once

#include <chrono>

namespace posthorn::test {

inline constexpr std::chrono::seconds hang_limit{120};

} // namespace posthorn::test
