// One step of a simulated story, as plain data: both sides carry out the same value.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/message.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace posthorn::simulation {

/// A new message; its options always name it by an id.
struct newcomer {
    outgoing what;
    bool brings_id = false; ///< else the store makes the real id, and the named one is the model's
};
struct enqueue_step {
    std::vector<newcomer> messages; ///< more than one is a bulk enqueue
};
struct claim_step {
    std::string owner;
    duration lease{};
    std::size_t limit = 0;
    std::optional<std::size_t> start = {};
    std::vector<std::string> unpark = {};
};
struct start_step {
    std::string owner;
    std::vector<receipt> receipts;
};
struct settle_step {
    std::string owner;
    std::vector<settlement> settlements;
};
struct renew_step {
    std::string owner;
    posthorn::fence fence{};
    duration lease{};
};
struct advance_step {
    duration by{};
};
struct reap_step {
    std::size_t limit = 0;
};
struct expire_step {};
struct cancel_step {
    message_id id;
};
struct redrive_step {
    message_id id;
};
struct purge_step {
    message_id id;
};
struct retry_key_step {
    std::string ordering_key;
};
struct skip_key_step {
    std::string ordering_key;
};

using operation = std::variant<enqueue_step, claim_step, start_step, settle_step, renew_step,
                               advance_step, reap_step, expire_step, cancel_step, redrive_step,
                               purge_step, retry_key_step, skip_key_step>;

/// Where every story begins.
inline constexpr timestamp beginning{std::chrono::seconds{1'800'000'000}};

/// The id of the n-th message of a story, and back to the name that sentences use for it.
[[nodiscard]] message_id numbered_id(unsigned number);
[[nodiscard]] std::string name_of(message_id id);

/// Seconds since the beginning, for people.
[[nodiscard]] std::string spoken(timestamp when);
[[nodiscard]] std::string spoken(duration length);

/// The step as a sentence.
[[nodiscard]] std::string spoken(const operation& step);

} // namespace posthorn::simulation
