// Finding a message by its id: at the number the id carries, or in the index of foreign ids.
#include "store/sqlite/numbered_id.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/sqlite/statements.hpp"

namespace posthorn::sqlite {

std::optional<std::int64_t> find_seq(connection& db, message_id id)
{
    auto row = db.use(sql::find_seq::text);
    row.bind(sql::find_seq::hint, contract::number_in(id)).bind(sql::find_seq::id, id);
    return row.step() ? std::optional{row.integer(0)} : std::nullopt;
}

} // namespace posthorn::sqlite
