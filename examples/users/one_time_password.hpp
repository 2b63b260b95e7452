// One-time passwords: drawn from the kernel's randomness, kept as a hash, compared in constant
// time.
#pragma once

#include <posthorn/environment.hpp>

#include <string>
#include <string_view>

namespace users {

/// Ten signs of 32: fifty bits, which nobody guesses while they are valid.
[[nodiscard]] std::string draw_code(posthorn::random_source& random);

/// What the database keeps of a code. The user's id is the salt: equal codes have other hashes.
[[nodiscard]] std::string hash_of_code(std::string_view user_id, std::string_view code);

/// Takes equally long wherever two hashes differ.
[[nodiscard]] bool same_hash(std::string_view one, std::string_view other);

/// SHA-256 in hexadecimal.
[[nodiscard]] std::string sha256(std::string_view text);

} // namespace users
