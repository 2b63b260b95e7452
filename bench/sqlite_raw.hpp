// The raw side: the least that SQL written by hand has to
// do for the same columns, with the same durability.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace bench {

/// A hand-written queue table in a file of its own. Messages
/// are inserted, claimed with a lease, and deleted.
class sqlite_raw {
public:
    /// `id_index`: whether the id can be looked up, as the id of a Posthorn message can.
    sqlite_raw(const std::string& path, bool id_index);
    sqlite_raw(const sqlite_raw&) = delete;
    sqlite_raw& operator=(const sqlite_raw&) = delete;
    ~sqlite_raw();

    void insert(std::size_t messages, std::size_t per_transaction, std::string_view topic,
                std::string_view payload);

    /// Claims with a lease and deletes, batch by batch, until
    /// `messages` are gone. Returns the bytes it read.
    std::size_t claim_and_delete(std::size_t messages, std::size_t batch);

private:
    void run(const char* sql);
    sqlite3_stmt* prepare(const char* sql);

    sqlite3* db_ = nullptr;
};

} // namespace bench
