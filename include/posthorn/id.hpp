// Strong identifiers. A message id is a UUIDv7: unique everywhere, and ordered by its time.
#pragma once

#include <posthorn/environment.hpp>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn {

/// Sixteen bytes, as RFC 9562 defines them.
struct uuid {
    std::array<std::uint8_t, 16> bytes{};

    friend auto operator<=>(const uuid&, const uuid&) = default;

    /// The nil UUID is nobody's id.
    [[nodiscard]] bool is_nil() const noexcept { return *this == uuid{}; }

    /// Reads the usual 36 characters, or 32 without dashes; anything else is no UUID.
    [[nodiscard]] static std::optional<uuid> parse(std::string_view text) noexcept;

    /// Makes a version 7 UUID: milliseconds, a fraction of them, then 62 random bits.
    [[nodiscard]] static uuid version_7(timestamp now, random_source& random);
};

[[nodiscard]] std::string to_string(const uuid& value);

/// A UUID that can not be mistaken for another kind of id.
template <typename Tag>
class strong_id {
public:
    constexpr strong_id() = default;
    constexpr explicit strong_id(const uuid& value) : value_(value) {}

    [[nodiscard]] const uuid& value() const noexcept { return value_; }
    [[nodiscard]] bool is_nil() const noexcept { return value_.is_nil(); }

    [[nodiscard]] static std::optional<strong_id> parse(std::string_view text) noexcept
    {
        auto parsed = uuid::parse(text);
        return parsed ? std::optional<strong_id>{strong_id{*parsed}} : std::nullopt;
    }

    friend auto operator<=>(const strong_id&, const strong_id&) = default;
    friend std::string to_string(const strong_id& id) { return to_string(id.value_); }

private:
    uuid value_;
};

/// Names one message for its whole life, through every retry.
using message_id = strong_id<struct message_id_tag>;

/// Names one join (joins.hpp).
using join_id = strong_id<struct join_id_tag>;

/// Names one execution of a scheduled job (schedules.hpp).
using execution_id = strong_id<struct execution_id_tag>;

/// A number that grows with every claim; what an older one settles changes nothing.
enum class fence : std::int64_t {};

} // namespace posthorn

template <typename Tag>
struct std::hash<posthorn::strong_id<Tag>> {
    std::size_t operator()(const posthorn::strong_id<Tag>& id) const noexcept
    {
        // The last eight bytes are random, so they are a hash already.
        std::size_t result = 0;
        for (std::size_t i = 8; i < 16; ++i)
            result = (result << 8U) | id.value().bytes[i];
        return result;
    }
};
