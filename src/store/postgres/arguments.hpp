// Parameters of a statement in PostgreSQL's binary format. Whole columns travel as arrays, so that
// a thousand messages are one statement.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::postgres {

/// Integers are bigint, text and bytes are what their column is: the statements' casts say so.
/// Text is copied; a parameter that is not set is NULL.
class arguments {
public:
    arguments& set(int parameter, std::int64_t value);
    arguments& set(int parameter, timestamp value)
    {
        return set(parameter, value.time_since_epoch().count());
    }
    arguments& set(int parameter, duration value) { return set(parameter, value.count()); }
    arguments& set(int parameter, fence value)
    {
        return set(parameter, static_cast<std::int64_t>(value));
    }
    arguments& set(int parameter, const std::optional<timestamp>& value)
    {
        return value ? set(parameter, *value) : *this;
    }
    arguments& set(int parameter, const message_id& id);
    arguments& set_flag(int parameter, bool value);
    arguments& set_text(int parameter, std::string_view value);
    arguments& set_text_or_null(int parameter, std::string_view value);

    arguments& set(int parameter, std::span<const std::int64_t> values);
    arguments& set(int parameter, std::span<const std::optional<std::int64_t>> values);
    arguments& set(int parameter, std::span<const std::string_view> values);         ///< text[]
    arguments& set_or_null(int parameter, std::span<const std::string_view> values); ///< '' is NULL
    arguments& set_bytes(int parameter, std::span<const std::string_view> values);   ///< bytea[]
    arguments& set_ids(int parameter, std::span<const std::optional<message_id>> values);

    /// As libpq wants `count` of them. Valid while this object is unchanged.
    struct native {
        std::vector<const char*> values;
        std::vector<int> lengths;
        std::vector<int> formats;
    };
    [[nodiscard]] native for_libpq(int count) const;

private:
    struct piece {
        std::size_t offset = 0;
        std::ptrdiff_t length = -1; ///< −1: NULL
    };

    void begin(int parameter);
    void end(int parameter);
    void put_32(std::uint32_t value);
    void put_64(std::uint64_t value);
    void put(std::string_view bytes) { buffer_ += bytes; }
    void put_array_header(std::uint32_t element_type, std::size_t size, bool has_nulls);

    std::string buffer_;
    std::vector<piece> pieces_;
};

/// The time for a statement's `:now`: a test's clock rules, else the server decides.
inline void set_now(arguments& with, int parameter, const environment& world)
{
    with.set(parameter, world.clock->database_time());
}

} // namespace posthorn::postgres
