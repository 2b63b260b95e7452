// Which addresses a webhook may be sent to. Whoever may name a URL must not reach what only this
// machine can: itself, its neighbours, and the services that clouds offer to those inside.
//
// What a name stands for may change between a look and the connection. So the guard looks at the
// address of each socket, right before it is connected, and nothing is looked up twice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sockaddr;

namespace posthorn::transports {

/// An address of IPv4 or IPv6. One of IPv4 is kept as IPv6 maps it, ::ffff:a.b.c.d.
struct ip_address {
    std::array<std::uint8_t, 16> bytes{};

    [[nodiscard]] bool is_v4() const noexcept;

    friend bool operator==(const ip_address&, const ip_address&) = default;
};

[[nodiscard]] std::string to_string(const ip_address& which);

/// Nothing: it is neither IPv4 nor IPv6.
[[nodiscard]] std::optional<ip_address> address_of(const sockaddr& where) noexcept;

/// An address as people may write a host: with brackets, a zone, dots at the end, and IPv4 in any
/// of its old spellings (127.1, 0x7f000001, 017700000001, 2130706433).
[[nodiscard]] std::optional<ip_address> address_in(std::string_view host);

/// Whether it could only be a number, but is no address: no name ends so.
[[nodiscard]] bool is_misspelt_address(std::string_view host);

/// Whether everybody can reach this address. Everything else is somebody's own.
[[nodiscard]] bool is_public(const ip_address& which) noexcept;

class address_guard {
public:
    /// Networks that may be reached though they are not public, such as `10.1.0.0/16` or `::1`.
    /// Throws: `error` with `invalid_argument` for what is no network.
    explicit address_guard(std::span<const std::string> allowed);

    [[nodiscard]] bool allows(const ip_address& which) const noexcept;

private:
    struct network {
        ip_address base;
        unsigned bits = 0;
    };
    std::vector<network> allowed_;
};

} // namespace posthorn::transports
