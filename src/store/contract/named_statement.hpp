// SQL text with a name, as the build makes it from the .sql files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace posthorn::contract {

/// A statement of a store. `{p}` in its text stands for the tables' prefix.
struct named_statement {
    int index; ///< its place among the store's statements: where its prepared form is kept
    std::string_view name;
    std::string_view text;
    int parameters = 0; ///< how many different ones it has

    /// The parameter that each `?` of the text stands for; empty where the text itself has numbers.
    std::span<const std::uint8_t> places = {};
};

/// The text with `{p}` replaced.
[[nodiscard]] std::string with_prefix(std::string_view text, std::string_view prefix);

/// A numbered step that brings the tables forward.
struct migration {
    int version;
    std::string_view name;
    std::string_view text;
};

} // namespace posthorn::contract
