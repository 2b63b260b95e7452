// When a failed message runs again, and when it has failed often enough.
#pragma once

#include <posthorn/time.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace posthorn {

/// Doubles the wait after each failure up to a cap, and gives up after `attempts_max` starts. As it
/// stands here, a message is tried for about two days: 35 hours at least, 69 at most.
struct exponential_retry {
    duration first = std::chrono::seconds{2};
    duration cap = std::chrono::hours{6};
    int attempts_max = 25;
    double jitter = 0.5; ///< the share of each wait left to chance, so that retries spread out
};

/// Never gives up: waits longer and longer, and at last tries once per `then_every`.
struct persistent_retry {
    duration first = std::chrono::seconds{2};
    int failures_max = 10;
    duration then_every = std::chrono::hours{24};
    double jitter = 0.1;
};

/// Decides itself: the wait after the given number of starts, or nothing for "give up".
struct custom_retry {
    std::function<std::optional<duration>(int starts)> wait_after;
};

using retry_policy = std::variant<exponential_retry, persistent_retry, custom_retry>;

/// The policy of a store's topics: one for all, and others for the topics that need their own. A
/// topic in `by_topic` may end in `*` and then means all that start so. An exact topic comes before
/// a wildcard, and a longer wildcard before a shorter one.
struct retry_rules {
    retry_policy fallback = exponential_retry{};
    std::map<std::string, retry_policy, std::less<>> by_topic = {};

    [[nodiscard]] const retry_policy& of(std::string_view topic) const;
};

/// How long to wait after the message has been started `starts` times, or nothing when it is dead.
/// `chance` is a number in [0, 1).
[[nodiscard]] std::optional<duration> wait_after(const retry_policy& policy, int starts,
                                                 double chance);

/// Whether a message that has been started `starts` times may be started once more.
[[nodiscard]] bool may_start_again(const retry_policy& policy, int starts);

/// What becomes of an ordering key when one of its messages dies.
enum class dead_key { blocks, skips };

/// What holds for the messages of one handler; what is not given is as the store's rules say.
struct failure_rules {
    std::optional<retry_policy> retry = {};
    std::optional<dead_key> on_dead = {};

    [[nodiscard]] bool empty() const noexcept { return !retry && !on_dead; }
};

} // namespace posthorn
