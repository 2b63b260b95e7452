// What the subject says to which a delivery is answered.
//
//     $JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.…, or with a domain and an account before STREAM
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace posthorn::transports {

[[nodiscard]] inline std::string_view part_of(std::string_view reply, std::size_t which)
{
    std::vector<std::string_view> parts;
    for (std::size_t from = 0; from <= reply.size();) {
        const auto end = std::min(reply.find('.', from), reply.size());
        parts.push_back(reply.substr(from, end - from));
        from = end + 1;
    }
    const std::size_t at = which + (parts.size() >= 12 ? 2 : 0);
    return parts.size() > at ? parts[at] : std::string_view{};
}

[[nodiscard]] inline std::uint64_t as_number(std::string_view digits)
{
    std::uint64_t result = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), result);
    return result;
}

/// Where the message stands in its stream, as text and as a number.
[[nodiscard]] inline std::string_view place_in(std::string_view reply)
{
    return part_of(reply, 5);
}
[[nodiscard]] inline std::uint64_t sequence_in(std::string_view reply)
{
    return as_number(place_in(reply));
}

/// How often it has been delivered, this time included.
[[nodiscard]] inline std::uint64_t delivery_in(std::string_view reply)
{
    return as_number(part_of(reply, 4));
}

} // namespace posthorn::transports
