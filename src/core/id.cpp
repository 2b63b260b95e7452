// UUIDs: reading, writing, and making version 7.
#include <posthorn/id.hpp>

namespace posthorn {
namespace {

constexpr char hex_digits[] = "0123456789abcdef";

int hex_value(char c) noexcept
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

constexpr bool dash_before(std::size_t byte) noexcept
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

} // namespace

std::optional<uuid> uuid::parse(std::string_view text) noexcept
{
    const bool dashed = text.size() == 36;
    if (!dashed && text.size() != 32)
        return std::nullopt;
    uuid result;
    std::size_t at = 0;
    for (std::size_t byte = 0; byte < result.bytes.size(); ++byte) {
        if (dashed && dash_before(byte) && text[at++] != '-')
            return std::nullopt;
        const int high = hex_value(text[at]);
        const int low = hex_value(text[at + 1]);
        if (high < 0 || low < 0)
            return std::nullopt;
        result.bytes[byte] = static_cast<std::uint8_t>(high * 16 + low);
        at += 2;
    }
    return result;
}

uuid uuid::version_7(timestamp now, random_source& random)
{
    const auto micros = static_cast<std::uint64_t>(now.time_since_epoch().count());
    const auto millis = micros / 1000;
    // RFC 9562, method 3: twelve bits of sub-millisecond time keep ids of one process in order.
    const auto fraction = (micros % 1000) * 4096 / 1000;

    uuid result;
    random.fill(std::span{result.bytes}.subspan(8));
    for (unsigned i = 0; i < 6; ++i)
        result.bytes[i] = static_cast<std::uint8_t>(millis >> (40U - 8U * i));
    result.bytes[6] = static_cast<std::uint8_t>(0x70U | (fraction >> 8U));
    result.bytes[7] = static_cast<std::uint8_t>(fraction);
    result.bytes[8] = static_cast<std::uint8_t>(0x80U | (result.bytes[8] & 0x3fU));
    return result;
}

std::string to_string(const uuid& value)
{
    std::string text;
    text.reserve(36);
    for (std::size_t byte = 0; byte < value.bytes.size(); ++byte) {
        if (dash_before(byte))
            text.push_back('-');
        text.push_back(hex_digits[value.bytes[byte] >> 4U]);
        text.push_back(hex_digits[value.bytes[byte] & 0xfU]);
    }
    return text;
}

} // namespace posthorn
