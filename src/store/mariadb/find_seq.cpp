// Finding a message by its id: at the number the id carries, or among the foreign ids.
#include "store/mariadb/find_seq.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/mariadb/statements.hpp"

namespace posthorn::mariadb {

std::optional<std::int64_t> find_seq(connection& db, message_id id)
{
    auto row = db.use(sql::find_seq::text);
    row.bind(sql::find_seq::hint, contract::number_in(id)).bind(sql::find_seq::id, id);
    return row.step() ? std::optional{row.integer(0)} : std::nullopt;
}

} // namespace posthorn::mariadb
