// A list of what is not public, from the registries of special addresses.
#include "transport/webhook/address_guard.hpp"

#include <posthorn/error.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

namespace posthorn::transports {
namespace {

constexpr unsigned v4_bits = 96; // before an address of IPv4

struct special_v4 {
    std::uint32_t base;
    unsigned bits;
};

constexpr std::array special_v4_networks{
    special_v4{0x00000000, 8},  // this network
    special_v4{0x0a000000, 8},  // private
    special_v4{0x64400000, 10}, // shared by carriers
    special_v4{0x7f000000, 8},  // loopback
    special_v4{0xa9fe0000, 16}, // link-local, and where clouds tell their secrets
    special_v4{0xa83f8110, 32}, // where Azure tells its machines their secrets
    special_v4{0xac100000, 12}, // private
    special_v4{0xc0000000, 24}, // protocol assignments
    special_v4{0xc0000200, 24}, // documentation
    special_v4{0xc0586300, 24}, // relays of 6to4
    special_v4{0xc0a80000, 16}, // private
    special_v4{0xc6120000, 15}, // benchmarks
    special_v4{0xc6336400, 24}, // documentation
    special_v4{0xcb007100, 24}, // documentation
    special_v4{0xe0000000, 4},  // multicast
    special_v4{0xf0000000, 4},  // reserved, and broadcast
};

bool is_public_v4(std::uint32_t address)
{
    return std::ranges::none_of(special_v4_networks, [&](const special_v4& each) {
        return (address ^ each.base) >> (32U - each.bits) == 0;
    });
}

bool shares_bits(const ip_address& one, const ip_address& other, unsigned bits)
{
    for (unsigned i = 0; i < bits / 8; ++i)
        if (one.bytes[i] != other.bytes[i])
            return false;
    const unsigned rest = bits % 8;
    return rest == 0 || (one.bytes[bits / 8] ^ other.bytes[bits / 8]) >> (8U - rest) == 0;
}

// The address of IPv4 that stands in one of IPv6 from this byte on.
std::uint32_t embedded(const ip_address& in, std::size_t from)
{
    std::uint32_t result = 0;
    for (std::size_t i = from; i < from + 4; ++i)
        result = result << 8U | in.bytes[i];
    return result;
}

bool starts_with(const ip_address& which, std::initializer_list<std::uint8_t> bytes)
{
    return std::equal(bytes.begin(), bytes.end(), which.bytes.begin());
}

ip_address mapped(std::uint32_t v4)
{
    ip_address result;
    result.bytes[10] = result.bytes[11] = 0xff;
    for (std::size_t i = 0; i < 4; ++i)
        result.bytes[12 + i] = static_cast<std::uint8_t>(v4 >> (24 - 8 * i));
    return result;
}

std::string_view without_decoration(std::string_view host)
{
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    host = host.substr(0, host.find('%')); // the zone of a link
    while (host.ends_with('.'))
        host.remove_suffix(1);
    return host;
}

std::optional<ip_address> numeric(std::string_view text)
{
    const std::string ended(text);
    ip_address result;
    if (inet_pton(AF_INET6, ended.c_str(), result.bytes.data()) == 1)
        return result;
    in_addr v4{};
    if (!ended.empty() && inet_aton(ended.c_str(), &v4) == 1)
        return mapped(ntohl(v4.s_addr));
    return std::nullopt;
}

} // namespace

bool ip_address::is_v4() const noexcept
{
    return shares_bits(*this, mapped(0), v4_bits);
}

std::string to_string(const ip_address& which)
{
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool v4 = which.is_v4();
    inet_ntop(v4 ? AF_INET : AF_INET6, which.bytes.data() + (v4 ? 12 : 0), text.data(),
              text.size());
    return text.data();
}

std::optional<ip_address> address_of(const sockaddr& where) noexcept
{
    if (where.sa_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &where, sizeof v4);
        return mapped(ntohl(v4.sin_addr.s_addr));
    }
    if (where.sa_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, &where, sizeof v6);
        ip_address result;
        std::memcpy(result.bytes.data(), &v6.sin6_addr, result.bytes.size());
        return result;
    }
    return std::nullopt;
}

std::optional<ip_address> address_in(std::string_view host)
{
    return numeric(without_decoration(host));
}

bool is_misspelt_address(std::string_view host)
{
    const auto plain = without_decoration(host);
    if (plain.empty() || plain.find(':') != std::string_view::npos)
        return !numeric(plain);
    const auto last = plain.substr(plain.rfind('.') + 1);
    const auto is_digit = [](char each) { return each >= '0' && each <= '9'; };
    const bool hexadecimal = last.starts_with("0x") || last.starts_with("0X");
    return (hexadecimal || std::ranges::all_of(last, is_digit)) && !numeric(plain);
}

bool is_public(const ip_address& which) noexcept
{
    if (which.is_v4() || starts_with(which, {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}))
        return is_public_v4(embedded(which, 12)); // mapped, or behind NAT64
    if (which.bytes[0] >> 5U != 1)                // all that is global begins with 001
        return false;
    if (starts_with(which, {0x20, 0x02})) // 6to4
        return is_public_v4(embedded(which, 2));
    if (starts_with(which, {0x20, 0x01, 0, 0})) // Teredo: its server, and its client in disguise
        return is_public_v4(embedded(which, 4)) && is_public_v4(~embedded(which, 12));
    const bool assigned = starts_with(which, {0x20, 0x01}) && which.bytes[2] < 2;
    const bool documentation = starts_with(which, {0x20, 0x01, 0x0d, 0xb8}) ||
                               (starts_with(which, {0x3f, 0xff}) && which.bytes[2] < 0x10);
    return !assigned && !documentation;
}

address_guard::address_guard(std::span<const std::string> allowed)
{
    for (const auto& each : allowed) {
        const auto slash = each.find('/');
        const auto text = std::string_view(each).substr(0, slash);
        const bool v4 = text.find(':') == std::string_view::npos;
        std::array<std::uint8_t, 4> plain{};
        ip_address base;
        const bool is_address =
            v4 ? inet_pton(AF_INET, std::string(text).c_str(), plain.data()) == 1
               : inet_pton(AF_INET6, std::string(text).c_str(), base.bytes.data()) == 1;
        if (v4) {
            base = mapped(0);
            std::ranges::copy(plain, base.bytes.begin() + 12);
        }
        unsigned bits = v4 ? 32 : 128;
        const auto most = bits;
        bool is_length = true;
        if (slash != std::string::npos) {
            const auto* end = each.data() + each.size();
            const auto [stopped, problem] = std::from_chars(each.data() + slash + 1, end, bits);
            is_length = problem == std::errc{} && stopped == end && bits <= most;
        }
        if (!is_address || !is_length)
            throw error(error_code::invalid_argument,
                        "'" + each + "' is no network; one is written as 10.1.0.0/16 or fd00::/8");
        allowed_.push_back({base, bits + (v4 ? v4_bits : 0)});
    }
}

bool address_guard::allows(const ip_address& which) const noexcept
{
    return is_public(which) || std::ranges::any_of(allowed_, [&](const network& each) {
               return shares_bits(which, each.base, each.bits);
           });
}

} // namespace posthorn::transports
