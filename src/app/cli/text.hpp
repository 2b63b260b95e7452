// Words for people: times, ages, counts, and text that cannot play tricks on a terminal.
#pragma once

#include <posthorn/time.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace posthorn::cli {

/// `2025-03-01T12:00:00.000000Z`
[[nodiscard]] std::string iso_time(timestamp when);

/// `45s`, `3m`, `5h`, `12d`
[[nodiscard]] std::string age(duration length);

/// `3m ago`, `now`, `in 5s`
[[nodiscard]] std::string relative(timestamp when, timestamp now);

/// `1 message`, `12 messages`
[[nodiscard]] std::string counted(std::size_t count, std::string_view noun);

/// The text with control characters, characters that hide or turn others, and invalid bytes made
/// visible, on one line.
[[nodiscard]] std::string printable(std::string_view text);

/// The same for text of several lines: line breaks and tabs stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// A document in which such characters are escaped; a reader of JSON finds them again. Bytes that
/// are not UTF-8 are replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// How many columns printable text takes on a terminal, as long as no character is wide.
[[nodiscard]] std::size_t columns(std::string_view text) noexcept;

/// Printable text that fits into so many columns; an ellipsis says that some is missing.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t columns_max);

/// The same for names that differ at their ends, such as files in one folder: the middle goes.
[[nodiscard]] std::string shortened_inside(std::string_view text, std::size_t columns_max);

/// Whether the bytes are UTF-8 without control characters other than line breaks and tabs. On its
/// way to a terminal such text passes `printable_lines`.
[[nodiscard]] bool is_plain_text(std::string_view bytes);

[[nodiscard]] std::string hexadecimal(std::string_view bytes);

/// The word most like `typed`, or nothing if none is near enough to be meant.
[[nodiscard]] std::string nearest(std::string_view typed, std::span<const std::string> words);

} // namespace posthorn::cli
