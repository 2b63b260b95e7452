// Writing a number into an id, and finding a message by it.
#include "store/sqlite/numbered_id.hpp"

#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>

namespace posthorn::sqlite {
namespace {

constexpr std::size_t number_starts = 11; ///< bytes 11 … 15 of the id
constexpr std::int64_t number_max = (std::int64_t{1} << 40U) - 1;

std::int64_t hint_of(const message_id& id)
{
    std::int64_t number = 0;
    for (auto i = number_starts; i < id.value().bytes.size(); ++i)
        number = (number << 8U) | id.value().bytes[i];
    return number;
}

} // namespace

message_id make_numbered_id(std::int64_t seq, timestamp now, random_source& random)
{
    if (seq > number_max)
        throw error(error_code::unsupported,
                    "this store has given out all its 2^40 message numbers");
    auto value = uuid::version_7(now, random);
    for (auto i = value.bytes.size(); i-- > number_starts; seq >>= 8U)
        value.bytes[i] = static_cast<std::uint8_t>(seq);
    return message_id{value};
}

std::optional<std::int64_t> find_seq(connection& db, message_id id)
{
    auto row = db.use(sql::find_seq::text);
    row.bind(sql::find_seq::hint, hint_of(id)).bind(sql::find_seq::id, id);
    return row.step() ? std::optional{row.integer(0)} : std::nullopt;
}

} // namespace posthorn::sqlite
