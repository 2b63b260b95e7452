// Nothing of this is our own invention: SHA-256 and the comparison are OpenSSL's.
#include "one_time_password.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <stdexcept>

namespace users {

std::string draw_code(posthorn::random_source& random)
{
    // Without I, L, O and U, which people mistake. 32 signs divide 256: none is more likely.
    constexpr std::string_view signs = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    std::array<std::uint8_t, 10> bytes{};
    random.fill(bytes);
    std::string code;
    for (const auto each : bytes)
        code += signs[each % signs.size()];
    return code;
}

std::string hash_of_code(std::string_view user_id, std::string_view code)
{
    return sha256(std::string(user_id) + ":" + std::string(code));
}

bool same_hash(std::string_view one, std::string_view other)
{
    return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string sha256(std::string_view text)
{
    std::array<std::uint8_t, 32> digest{};
    if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
        throw std::runtime_error("OpenSSL cannot compute SHA-256");
    std::string result;
    for (const auto each : digest) {
        result += "0123456789abcdef"[each >> 4U];
        result += "0123456789abcdef"[each & 15U];
    }
    return result;
}

} // namespace users
