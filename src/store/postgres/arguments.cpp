// The binary formats: big-endian numbers, and arrays with a small header.
#include "store/postgres/arguments.hpp"

#include <algorithm>
#include <array>

namespace posthorn::postgres {
namespace {

// The types' numbers in PostgreSQL's catalogue; they never change.
constexpr std::uint32_t type_bytea = 17;
constexpr std::uint32_t type_bigint = 20;
constexpr std::uint32_t type_text = 25;
constexpr std::uint32_t type_uuid = 2950;
constexpr std::uint32_t null_length = 0xffffffffU;

std::string_view bytes_of(const message_id& id)
{
    const auto& bytes = id.value().bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

void arguments::begin(int parameter)
{
    const auto index = static_cast<std::size_t>(parameter - 1);
    if (pieces_.size() <= index)
        pieces_.resize(index + 1);
    pieces_[index].offset = buffer_.size();
}

void arguments::end(int parameter)
{
    auto& which = pieces_[static_cast<std::size_t>(parameter - 1)];
    which.length = static_cast<std::ptrdiff_t>(buffer_.size() - which.offset);
}

void arguments::put_32(std::uint32_t value)
{
    const std::array bytes{static_cast<char>(value >> 24U), static_cast<char>(value >> 16U),
                           static_cast<char>(value >> 8U), static_cast<char>(value)};
    buffer_.append(bytes.data(), bytes.size());
}

void arguments::put_64(std::uint64_t value)
{
    put_32(static_cast<std::uint32_t>(value >> 32U));
    put_32(static_cast<std::uint32_t>(value));
}

void arguments::put_array_header(std::uint32_t element_type, std::size_t size, bool has_nulls)
{
    put_32(size == 0 ? 0 : 1); // dimensions
    put_32(has_nulls ? 1 : 0);
    put_32(element_type);
    if (size == 0)
        return;
    put_32(static_cast<std::uint32_t>(size));
    put_32(1); // the first index
}

arguments& arguments::set(int parameter, std::int64_t value)
{
    begin(parameter);
    put_64(static_cast<std::uint64_t>(value));
    end(parameter);
    return *this;
}

arguments& arguments::set(int parameter, const message_id& id)
{
    begin(parameter);
    put(bytes_of(id));
    end(parameter);
    return *this;
}

arguments& arguments::set_flag(int parameter, bool value)
{
    begin(parameter);
    buffer_.push_back(value ? '\1' : '\0');
    end(parameter);
    return *this;
}

arguments& arguments::set_text(int parameter, std::string_view value)
{
    begin(parameter);
    put(value);
    end(parameter);
    return *this;
}

arguments& arguments::set_text_or_null(int parameter, std::string_view value)
{
    return value.empty() ? *this : set_text(parameter, value);
}

arguments& arguments::set(int parameter, std::span<const std::int64_t> values)
{
    begin(parameter);
    put_array_header(type_bigint, values.size(), false);
    for (const auto each : values) {
        put_32(8);
        put_64(static_cast<std::uint64_t>(each));
    }
    end(parameter);
    return *this;
}

arguments& arguments::set(int parameter, std::span<const std::optional<std::int64_t>> values)
{
    begin(parameter);
    put_array_header(type_bigint, values.size(), true);
    for (const auto& each : values) {
        put_32(each ? 8 : null_length);
        if (each)
            put_64(static_cast<std::uint64_t>(*each));
    }
    end(parameter);
    return *this;
}

arguments& arguments::set(int parameter, std::span<const std::string_view> values)
{
    begin(parameter);
    put_array_header(type_text, values.size(), false);
    for (const auto each : values) {
        put_32(static_cast<std::uint32_t>(each.size()));
        put(each);
    }
    end(parameter);
    return *this;
}

arguments& arguments::set_or_null(int parameter, std::span<const std::string_view> values)
{
    begin(parameter);
    put_array_header(type_text, values.size(), true);
    for (const auto each : values) {
        put_32(each.empty() ? null_length : static_cast<std::uint32_t>(each.size()));
        put(each);
    }
    end(parameter);
    return *this;
}

arguments& arguments::set_bytes(int parameter, std::span<const std::string_view> values)
{
    std::size_t total = 0;
    for (const auto each : values)
        total += each.size() + 4;
    buffer_.reserve(buffer_.size() + total + 64);
    begin(parameter);
    put_array_header(type_bytea, values.size(), false);
    for (const auto each : values) {
        put_32(static_cast<std::uint32_t>(each.size()));
        put(each);
    }
    end(parameter);
    return *this;
}

arguments& arguments::set_ids(int parameter, std::span<const std::optional<message_id>> values)
{
    begin(parameter);
    put_array_header(type_uuid, values.size(), true);
    for (const auto& each : values) {
        put_32(each ? 16 : null_length);
        if (each)
            put(bytes_of(*each));
    }
    end(parameter);
    return *this;
}

arguments::native arguments::for_libpq(int count) const
{
    const auto size = static_cast<std::size_t>(count);
    native result{.values = std::vector<const char*>(size, nullptr),
                  .lengths = std::vector<int>(size, 0),
                  .formats = std::vector<int>(size, 1)};
    for (std::size_t i = 0; i < std::min(size, pieces_.size()); ++i) {
        if (pieces_[i].length < 0)
            continue;
        result.values[i] = buffer_.data() + pieces_[i].offset;
        result.lengths[i] = static_cast<int>(pieces_[i].length);
    }
    return result;
}

} // namespace posthorn::postgres
