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
/// 6: all threads of a process take leases in the same name
inline constexpr bool shares_its_token = planted_bug == 6;
/// 7: renewals are spread over seconds, whatever the length of the lease
inline constexpr bool renews_when_it_likes = planted_bug == 7;
/// 9: whoever has led believes that it leads until it hears otherwise
inline constexpr bool believes_for_ever = planted_bug == 9;
/// 25: a member that was called off is never counted
inline constexpr bool forgets_the_called_off = planted_bug == 25;
/// 27: what a stream of NATS rejects counts as a duplicate that it has
inline constexpr bool knows_the_rejected = planted_bug == 27;
/// 28: NATS is told another id than the message's: one of its payload, which others may have, too
inline constexpr bool names_by_content = planted_bug == 28;
/// 29: a message that RabbitMQ returns counts as confirmed
inline constexpr bool ignores_returns = planted_bug == 29;
/// 30: a message counts as being in Kafka once the client is rid of it, whatever its report says
inline constexpr bool trusts_the_flush = planted_bug == 30;
/// 31: leases are judged by a clock that people can set
inline constexpr bool leases_by_the_wall_clock = planted_bug == 31;
/// 33: the key of a command whose holder died stays locked for as long as results are kept
inline constexpr bool locks_for_ever = planted_bug == 33;
/// 38: whoever comes back late completes a command that somebody else has taken over
inline constexpr bool completes_late = planted_bug == 38;
/// 39: another delivery of what is done is enqueued again
inline constexpr bool enqueues_what_is_done = planted_bug == 39;
/// 40: how a message from outside has ended is remembered apart from its acknowledgement, and lost
inline constexpr bool forgets_the_inbox = planted_bug == 40;
/// 41: events leave their entities before the commit
inline constexpr bool events_leave_early = planted_bug == 41;

} // namespace posthorn::core
