// A message as an application of any language sends it: arguments with names, for the one SQL
// statement that enqueues. Each engine writes that statement in its own words.
#pragma once

#include <posthorn/id.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace posthorn::conformance {

struct sql_bytes {
    std::string value;
};

/// The text of a JSON document, well-formed or not.
struct sql_json {
    std::string document;
};

/// A literal as it stands, for what has no type of its own here, such as 1.5.
struct sql_raw {
    std::string literal;
};

/// What an argument can be. A `std::string` is text, of any bytes.
using sql_value = std::variant<std::nullptr_t, std::int64_t, std::string, sql_bytes, sql_json,
                               message_id, sql_raw>;

struct sql_argument {
    std::string name;
    sql_value value;
};

using sql_message = std::vector<sql_argument>;

/// Two digits per byte.
[[nodiscard]] std::string hex_of(std::string_view bytes);
[[nodiscard]] std::string hex_of(message_id id);

/// Between apostrophes, with those inside doubled.
[[nodiscard]] std::string sql_quoted(std::string_view text);

/// What a failing test shows of it: names, and values up to a length that people read.
[[nodiscard]] std::string described(const sql_message& message);

/// One function object out of several, to visit a value with.
template <class... Cases>
struct overloaded : Cases... {
    using Cases::operator()...;
};

} // namespace posthorn::conformance
