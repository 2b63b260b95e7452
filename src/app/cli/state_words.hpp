// The words for where a message stands: one list for all verbs, which docs/cli.md explains.
#pragma once

#include <posthorn/messages.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace posthorn::cli {

[[nodiscard]] std::string_view word_of(const message_record& what) noexcept;

/// Which messages a word means.
struct wanted_state {
    message_state state{};
    std::optional<ready_state> ready_as = {};

    [[nodiscard]] bool includes(const message_record& what) const noexcept;
    void narrow(message_filter& filter) const;
};

[[nodiscard]] wanted_state read_state(std::string_view text);

/// How many are delayed and have never failed: those that have are called retrying.
[[nodiscard]] std::int64_t delayed_only(const store_stats& stats) noexcept;

} // namespace posthorn::cli
