// Known bugs of other systems, one at a time and only where the build says so: tests/planted.sh
// shows that the suite notices each of them.
#pragma once

namespace posthorn::core {

#ifdef POSTHORN_PLANT_BUG
inline constexpr int planted_bug = POSTHORN_PLANT_BUG;
#else
inline constexpr int planted_bug = 0;
#endif

/// 2: a member is counted in another transaction than the one that settles it
inline constexpr bool counts_later = planted_bug == 2;
/// 3: an acknowledgement that changed nothing is counted
inline constexpr bool counts_the_lost = planted_bug == 3;
/// 4: whoever finds a join complete enqueues its continuation
inline constexpr bool continues_twice = planted_bug == 4;
/// 5: what waits for a join is tried until it dies
inline constexpr bool waits_by_trying = planted_bug == 5;
/// 25: a member that was called off is never counted
inline constexpr bool forgets_the_called_off = planted_bug == 25;

} // namespace posthorn::core
