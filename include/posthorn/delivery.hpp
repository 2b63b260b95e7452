// What a worker gets when it claims, and the words in which it answers.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/message.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// Who claims. The token is a secret of one worker: only it settles what it claimed.
struct owner {
    std::string token;
    std::string worker = {}; ///< a name for people to read

    /// Makes an owner with an unguessable token.
    [[nodiscard]] static owner create(std::string worker, random_source& random);
};

/// Proof of a claim on one message. Small, and safe to keep: an old one changes nothing.
struct receipt {
    message_id id;
    std::int64_t position = 0;
    posthorn::fence fence{};
    std::uint32_t ordinal = 0; ///< its place in the batch it was claimed with

    friend bool operator==(const receipt&, const receipt&) = default;
};

/// A claimed message.
struct delivery {
    posthorn::receipt receipt;
    std::string topic;
    std::string payload;
    std::string ordering_key;
    std::string correlation_id;
    std::string causation_id;
    posthorn::headers headers;
    int priority = 0;
    int attempt = 1; ///< 1 for the first start
    bool started = false;
    timestamp created_at;
    timestamp due_at;
    std::optional<timestamp> expires_at;
};

/// Messages claimed together. They share a lease and a fence.
struct batch {
    posthorn::fence fence{};
    timestamp claimed_at;
    timestamp lease_until;
    std::vector<delivery> deliveries;

    [[nodiscard]] bool empty() const noexcept { return deliveries.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return deliveries.size(); }
    [[nodiscard]] std::vector<receipt> receipts() const;
};

/// Why a message was put aside until somebody takes its topic.
enum class park_reason {
    no_handler, ///< the worker that met it has no handler for its topic
    paused,     ///< an operator paused its topic
    at_limit,   ///< as many as its handler's limits allow are running; it stays ready
};

[[nodiscard]] std::string_view to_string(park_reason reason) noexcept;

/// How handling a message ended, as the handler says it.
struct outcome {
    enum class kind { done, retry, fail, postpone, park };

    kind verdict = kind::done;
    std::optional<duration> delay = {}; ///< of a retry; without one the retry policy decides
    std::string error = {};
    park_reason reason = {}; ///< of a parking
};

[[nodiscard]] outcome done();
[[nodiscard]] outcome retry(std::string error = {});
[[nodiscard]] outcome retry_in(duration delay, std::string error = {});
[[nodiscard]] outcome fail(std::string reason);

/// Not now, and nobody's fault: the message comes back after `delay` and no attempt is counted,
/// even though it had started. For "the other side is down" and the like.
[[nodiscard]] outcome postpone(duration delay);

/// Not here: the message is put aside, and no attempt is counted, until somebody claims with its
/// topic in `claim_options::unpark`. A worker says this of topics it does not handle.
[[nodiscard]] outcome park(park_reason why);

/// A receipt and its outcome.
struct settlement {
    posthorn::receipt receipt;
    posthorn::outcome outcome = {};
};

/// What became of one message when it was settled.
enum class settled_as {
    lost,     ///< nothing changed: the claim had passed on, or was never this owner's
    done,     ///< finished for good
    retrying, ///< will start again later
    dead,     ///< failed for good
    released, ///< had never started or was postponed, and waits again unharmed
    parked,   ///< put aside unharmed, until somebody takes its topic
};

[[nodiscard]] std::string_view to_string(settled_as answer) noexcept;

/// The answers to a settlement, one per message and in its order.
struct settle_result {
    std::vector<settled_as> answers;

    [[nodiscard]] std::size_t settled() const noexcept;
    [[nodiscard]] std::size_t lost() const noexcept;
};

/// The answer to starting one message.
enum class start_answer {
    started, ///< the start counts once the transaction commits: run the handler now
    gone,    ///< cancelled or expired meanwhile: do not run it, nothing is left to settle
    lost,    ///< the claim is no longer this owner's: do not run it
};

[[nodiscard]] std::string_view to_string(start_answer answer) noexcept;

} // namespace posthorn
