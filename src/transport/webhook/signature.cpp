// What is signed is `id.timestamp.body`. A full stop in the id would let the parts be cut
// elsewhere, and the same signature be good for another id; so such ids are none.
#include "transport/webhook/signature.hpp"

#include <posthorn/error.hpp>
#include <posthorn/webhook_signature.hpp>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <charconv>
#include <memory>

namespace posthorn {
namespace transports {
namespace {

constexpr std::string_view base64_prefix = "whsec_";
constexpr std::string_view version_prefix = "v1,";
constexpr std::size_t secret_bytes_min = 16;
constexpr std::size_t signatures_max = 16; // more is somebody who wants to keep us busy
constexpr std::string_view base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void crypto_failed()
{
    throw error(error_code::internal, "OpenSSL cannot compute HMAC-SHA256");
}

template <auto Free>
struct freed_by {
    template <typename Type>
    void operator()(Type* what) const
    {
        Free(what);
    }
};

bool is_printable(char c)
{
    return c > ' ' && c <= '~';
}

} // namespace

mac hmac_sha256(std::string_view key, std::span<const std::string_view> parts)
{
    const std::unique_ptr<EVP_MAC, freed_by<&EVP_MAC_free>> kind(
        EVP_MAC_fetch(nullptr, "HMAC", nullptr));
    const std::unique_ptr<EVP_MAC_CTX, freed_by<&EVP_MAC_CTX_free>> context(
        kind ? EVP_MAC_CTX_new(kind.get()) : nullptr);
    std::string digest = "SHA256";
    const std::array how{OSSL_PARAM_construct_utf8_string("digest", digest.data(), 0),
                         OSSL_PARAM_construct_end()};
    const auto bytes = [](std::string_view text) {
        return reinterpret_cast<const unsigned char*>(text.data()); // as OpenSSL spells bytes
    };
    if (!context || EVP_MAC_init(context.get(), bytes(key), key.size(), how.data()) != 1)
        crypto_failed();
    for (const auto part : parts)
        if (EVP_MAC_update(context.get(), bytes(part), part.size()) != 1)
            crypto_failed();
    mac result{};
    std::size_t size = 0;
    if (EVP_MAC_final(context.get(), result.data(), &size, result.size()) != 1 ||
        size != result.size())
        crypto_failed();
    return result;
}

std::string to_base64(std::span<const std::uint8_t> bytes)
{
    std::string result;
    result.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto have = std::min<std::size_t>(bytes.size() - i, 3);
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 3; ++j)
            group = group << 8U | (j < have ? bytes[i + j] : 0U);
        for (std::size_t j = 0; j < 4; ++j)
            result += j <= have ? base64_digits[group >> (18 - 6 * j) & 63U] : '=';
    }
    return result;
}

std::optional<std::string> from_base64(std::string_view text)
{
    const auto end = text.find_last_not_of('=');
    if (text.size() - (end + 1) > 2)
        return std::nullopt;
    text = text.substr(0, end + 1);
    if (text.size() % 4 == 1)
        return std::nullopt;
    std::string result;
    std::uint32_t group = 0;
    unsigned bits = 0;
    for (const char each : text) {
        const auto digit = base64_digits.find(each);
        if (digit == std::string_view::npos)
            return std::nullopt;
        group = group << 6U | static_cast<std::uint32_t>(digit);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            result += static_cast<char>(group >> bits & 0xffU);
        }
    }
    return result;
}

std::string secret_bytes(std::string_view secret)
{
    auto bytes = secret.starts_with(base64_prefix)
                     ? from_base64(secret.substr(base64_prefix.size()))
                     : std::string(secret);
    if (!bytes)
        throw error(error_code::invalid_argument,
                    "a secret for webhooks begins with whsec_, but what follows is no base64");
    if (bytes->size() < secret_bytes_min)
        throw error(error_code::invalid_argument,
                    fmt::format("a secret for webhooks has {} bytes; it needs at least {}, such as "
                                "whsec_ and the output of: openssl rand -base64 32",
                                bytes->size(), secret_bytes_min));
    return *std::move(bytes);
}

std::vector<std::string> secret_bytes(std::span<const std::string> secrets)
{
    std::vector<std::string> result;
    result.reserve(secrets.size());
    for (const auto& each : secrets)
        result.push_back(secret_bytes(each));
    return result;
}

std::string signature_of(std::string_view id, std::string_view unix_seconds, std::string_view body,
                         std::span<const std::string> keys)
{
    const std::array<std::string_view, 5> parts{id, ".", unix_seconds, ".", body};
    std::string result;
    for (const auto& key : keys) {
        if (!result.empty())
            result += ' ';
        result += version_prefix;
        result += to_base64(hmac_sha256(key, parts));
    }
    return result;
}

} // namespace transports

std::string_view to_string(webhook_verdict verdict) noexcept
{
    switch (verdict) {
    case webhook_verdict::genuine: return "genuine";
    case webhook_verdict::incomplete: return "incomplete";
    case webhook_verdict::malformed: return "malformed";
    case webhook_verdict::too_old: return "too_old";
    case webhook_verdict::too_new: return "too_new";
    case webhook_verdict::forged: return "forged";
    }
    return "";
}

std::string sign_webhook(std::string_view id, std::int64_t unix_seconds, std::string_view body,
                         std::span<const std::string> secrets)
{
    return transports::signature_of(id, std::to_string(unix_seconds), body,
                                    transports::secret_bytes(secrets));
}

webhook_verdict verify_webhook(const signed_webhook& what, std::span<const std::string> secrets,
                               timestamp now, duration tolerance)
{
    namespace tr = transports;
    if (what.id.empty() || what.timestamp.empty() || what.signature.empty())
        return webhook_verdict::incomplete;
    std::int64_t sent = 0;
    const auto* end = what.timestamp.data() + what.timestamp.size();
    const auto [stopped, problem] = std::from_chars(what.timestamp.data(), end, sent);
    constexpr std::int64_t seconds_max = 100'000'000'000; // so that microseconds fit
    if (problem != std::errc{} || stopped != end || sent < 0 || sent > seconds_max ||
        what.id.find('.') != std::string_view::npos ||
        !std::ranges::all_of(what.id, tr::is_printable))
        return webhook_verdict::malformed;
    const std::array<std::string_view, 5> parts{what.id, ".", what.timestamp, ".", what.body};
    std::vector<tr::mac> good;
    for (const auto& key : tr::secret_bytes(secrets))
        good.push_back(tr::hmac_sha256(key, parts));
    bool genuine = false;
    auto rest = what.signature;
    for (std::size_t i = 0; i < tr::signatures_max && !rest.empty(); ++i) {
        const auto each = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(each.size() + 1, rest.size()));
        if (!each.starts_with(tr::version_prefix))
            continue; // of a version that we do not know
        const auto given = tr::from_base64(each.substr(tr::version_prefix.size()));
        if (!given || given->size() != sizeof(tr::mac))
            continue;
        for (const auto& known : good) // how long this takes tells nothing
            genuine |= CRYPTO_memcmp(known.data(), given->data(), known.size()) == 0;
    }
    if (!genuine)
        return webhook_verdict::forged;
    const timestamp sent_at{std::chrono::seconds{sent}};
    if (sent_at < now - tolerance)
        return webhook_verdict::too_old;
    return sent_at > now + tolerance ? webhook_verdict::too_new : webhook_verdict::genuine;
}

} // namespace posthorn
