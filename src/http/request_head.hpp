// What stands in front of a request's body: how much of it is taken, and what it says of the body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::http {

constexpr std::size_t head_bytes_max = std::size_t{64} << 10U;
constexpr std::size_t head_lines_max = 100;

/// Looks for the blank line, in bytes that come piece by piece.
class head_search {
public:
    enum class answer { unfinished, complete, too_large };

    /// Requires: what was given before is still in front.
    [[nodiscard]] answer look_at(std::string_view received);

    /// Where the body begins, once it is complete.
    [[nodiscard]] std::size_t size() const noexcept { return line_begin_; }

private:
    std::size_t line_begin_ = 0;
    std::size_t lines_ = 0;
};

/// Without what asks for parts of an answer: the library would multiply the answer by them.
[[nodiscard]] std::string without_ranges(std::string_view head);

/// How long the body is. Nothing: only its end will tell.
[[nodiscard]] std::optional<std::uint64_t> announced_body(std::string_view head);

} // namespace posthorn::http
