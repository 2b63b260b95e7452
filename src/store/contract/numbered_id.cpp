// Writing a number into an id, and reading it back.
#include "store/contract/numbered_id.hpp"

#include <posthorn/error.hpp>

namespace posthorn::contract {
namespace {

constexpr std::size_t number_starts = 11; ///< bytes 11 … 15 of the id
constexpr std::int64_t number_max = (std::int64_t{1} << 40U) - 1;

} // namespace

message_id make_numbered_id(std::int64_t seq, timestamp now, random_source& random)
{
    return with_number(message_id{uuid::version_7(now, random)}, seq);
}

message_id with_number(const message_id& id, std::int64_t seq)
{
    if (seq > number_max)
        throw error(error_code::unsupported,
                    "this store has given out all its 2^40 message numbers");
    auto value = id.value();
    for (auto i = value.bytes.size(); i-- > number_starts; seq >>= 8U)
        value.bytes[i] = static_cast<std::uint8_t>(seq);
    return message_id{value};
}

std::int64_t number_in(const message_id& id) noexcept
{
    std::int64_t number = 0;
    for (auto i = number_starts; i < id.value().bytes.size(); ++i)
        number = (number << 8U) | id.value().bytes[i];
    return number;
}

} // namespace posthorn::contract
