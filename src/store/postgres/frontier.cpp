// What the database remembers of the search, and of which tables it speaks.
#include "store/postgres/frontier.hpp"

#include "store/postgres/connection.hpp"
#include "store/postgres/statements.hpp"

namespace posthorn::postgres {

void read_mark(connection& db, frontier& front)
{
    const auto mark = db.run(sql::read_mark::text);
    front.reset(mark.integer(0, 0), mark.integer(0, 1));
}

} // namespace posthorn::postgres
