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

/// Without what asks for parts of an answer, since the library would multiply the answer by them;
/// and without a wait for our consent, which has been given or is not needed.
[[nodiscard]] std::string for_the_library(std::string_view head);

/// Whether the sender waits for our consent before it sends the body.
[[nodiscard]] bool awaits_consent(std::string_view head);

/// Whether the library reads a body after this head, whatever the head says of one.
[[nodiscard]] bool has_body(std::string_view head);

/// How long the body is. Nothing: only its end will tell.
[[nodiscard]] std::optional<std::uint64_t> announced_body(std::string_view head);

/// Whether it says so itself.
[[nodiscard]] bool announces_length(std::string_view head);

/// Whether every reader would find the same end of the body. A proxy in front may read a head that
/// contradicts itself in another way than the HTTP library does, and a request could be hidden in
/// the body of another. So these are refused: more than one Content-Length, one that is no number,
/// Content-Length beside Transfer-Encoding, and any Transfer-Encoding but `chunked`.
[[nodiscard]] bool frames_body_clearly(std::string_view head);

/// Looks for the end of a body that comes in chunks, in bytes that come piece by piece.
class chunk_search {
public:
    enum class answer { unfinished, complete, malformed };

    /// Requires: what was given before is still in front.
    [[nodiscard]] answer look_at(std::string_view body);

private:
    std::size_t line_begin_ = 0;
    bool is_last_ = false; ///< the line that ends the body comes next
};

} // namespace posthorn::http
