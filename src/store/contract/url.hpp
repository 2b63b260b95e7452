// Store URLs: `scheme:rest?name=value&…`.
#pragma once

#include <posthorn/time.hpp>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace posthorn::contract {

/// A URL taken apart and percent-decoded.
struct store_url {
    std::string scheme;
    std::string rest;         ///< what stands between the scheme's colon and the question mark
    std::string encoded_rest; ///< the same as it was written, for taking it apart further
    std::map<std::string, std::string, std::less<>> parameters;

    /// Throws: `error` with `invalid_argument`.
    [[nodiscard]] static store_url parse(std::string_view text);

    /// Refuses parameters that nobody reads, naming those that are known.
    void allow_only(std::initializer_list<std::string_view> names) const;

    [[nodiscard]] std::string parameter(std::string_view name, std::string_view fallback) const;
};

/// Replaces each `%` and two digits by their byte.
/// Throws: `error` with `invalid_argument`, which does not quote the text: it may be a password.
[[nodiscard]] std::string percent_decoded(std::string_view text);

/// The URL with `***` for its password, as it may stand in an error or a log. Where the password
/// ends is not certain in a URL with an `@` behind a `?`: of that one only the scheme is left.
[[nodiscard]] std::string without_password(std::string_view url);

/// A text in which every URL stands as `without_password` writes it.
[[nodiscard]] std::string without_passwords(std::string_view text);

/// Whether a parameter's name says that its value is a secret.
[[nodiscard]] bool is_secret_name(std::string_view name);

/// Refuses a URL whose password holds one of `ends` as it is: its reader would end it there, and
/// quote the rest as a port, a database or a parameter. Throws: `error` with `invalid_argument`.
void refuse_split_password(std::string_view url, std::string_view ends = "?");

/// Reads `250ms`, `5s`, `10m`, `2h`, `7d`. Throws: `error` with `invalid_argument`.
[[nodiscard]] duration parse_duration(std::string_view text);

} // namespace posthorn::contract
