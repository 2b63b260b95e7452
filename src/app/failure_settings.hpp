// What a file or a command line says of failed messages: when they are tried again, and what a dead
// one does to its ordering key. What is not said keeps its default.
#pragma once

#include <posthorn/outbox.hpp>
#include <posthorn/retry.hpp>
#include <posthorn/time.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn {

struct failure_settings {
    std::optional<std::string> rule = {}; ///< one of `retry_rule_names`
    std::optional<int> attempts = {};
    std::optional<duration> first = {};
    std::optional<duration> cap = {};        ///< of exponential
    std::optional<duration> then_every = {}; ///< of persistent
    std::optional<double> jitter = {};
    std::optional<dead_key> on_dead = {};

    [[nodiscard]] bool says_when() const noexcept
    {
        return rule || attempts || first || cap || then_every || jitter;
    }
};

inline const std::array<std::string, 2> retry_rule_names{"exponential", "persistent"};
inline const std::array<std::string, 2> dead_key_names{"blocks", "skips"};

/// Two of the settings that cannot stand together.
struct settings_clash {
    std::string_view key; ///< as in the file: `cap`, `then_every`, `first`
    std::string message;
};
[[nodiscard]] std::optional<settings_clash> clash_in(const failure_settings& what);

/// The policy that they describe. Without a rule, `then_every` means persistent, and all else
/// exponential.
[[nodiscard]] retry_policy policy_of(const failure_settings& what);

/// As a handler takes them.
[[nodiscard]] failure_rules rules_of(const failure_settings& what);

/// The rules for all topics, as a command line has them. Throws: `error` with `invalid_argument`
/// that names the option which cannot stand there.
[[nodiscard]] outbox_options outbox_for(const failure_settings& options);

// All throw `error` with `invalid_argument` for another text.
[[nodiscard]] dead_key read_dead_key(std::string_view text);
[[nodiscard]] std::string read_retry_rule(std::string_view text);
[[nodiscard]] double read_jitter(std::string_view text); ///< from 0 to 1

} // namespace posthorn
