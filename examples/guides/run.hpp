// How the guides run a statement of the application's inside Posthorn's transaction on SQLite. The
// guide to exactly-once shows the same for each engine.
#pragma once

#include <posthorn/sqlite.hpp>
#include <posthorn/transaction.hpp>

#include <sqlite3.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

inline void run(posthorn::transaction& tx, const char* sql,
                const std::vector<std::string>& values = {})
{
    sqlite3* db = posthorn::sqlite::native_handle(tx);
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
    for (std::size_t i = 0; i < values.size(); ++i)
        sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].data(),
                          static_cast<int>(values[i].size()), SQLITE_STATIC);
    const bool worked = sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_finalize(statement);
    if (!worked)
        throw std::runtime_error(sqlite3_errmsg(db));
}
