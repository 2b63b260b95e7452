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

/// Replaces each `%` and two digits by their byte. Throws: `error` with `invalid_argument`.
[[nodiscard]] std::string percent_decoded(std::string_view text);

/// The URL with `***` for its password, as it may stand in an error or a log.
[[nodiscard]] std::string without_password(std::string_view url);

/// Reads `250ms`, `5s`, `10m`, `2h`, `7d`. Throws: `error` with `invalid_argument`.
[[nodiscard]] duration parse_duration(std::string_view text);

} // namespace posthorn::contract
