// A configuration file as a tree of values that know where they stand. The one place that knows
// TOML is document.cpp: its library compiles slowly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::daemon {

/// A place in the file, counted from 1; 0: nowhere in particular.
struct place {
    std::uint32_t line = 0;
    std::uint32_t column = 0;

    friend auto operator<=>(const place&, const place&) = default;
};

struct member;

struct value {
    enum class kind { table, array, text, whole, real, flag, time };

    kind is = kind::table;
    place at = {};
    std::string text = {};
    std::int64_t whole = 0;
    double real = 0;
    bool flag = false;
    bool is_typed = false;            ///< on a command line: `text` is there whatever it looks like
    std::vector<value> items = {};    ///< of an array
    std::vector<member> members = {}; ///< of a table, in the order of the file

    [[nodiscard]] const member* find(std::string_view name) const;
};

struct member {
    std::string name;
    place at; ///< of the name
    value is;
};

/// What a value is, for people: "a string", "a table".
[[nodiscard]] std::string_view in_words(value::kind kind) noexcept;

/// A text that is not TOML, and where.
struct not_toml {
    place at;
    std::string message;
};

/// Throws: `not_toml`.
[[nodiscard]] value read_toml(std::string_view text);

} // namespace posthorn::daemon
