// A batch in its row of MariaDB's table.
#pragma once

#include "store/contract/batch_record.hpp"
#include "store/mariadb/connection.hpp"

#include <optional>
#include <vector>

namespace posthorn::mariadb {

class batch_record : public contract::batch_record {
public:
    using contract::batch_record::batch_record;

    /// Whether somebody may follow the end of a member.
    bool followed = false;

    /// Locks and reads a row; nothing if there is no batch of that number.
    [[nodiscard]] static std::optional<batch_record> lock(connection& db, fence number);

    /// Locks and reads those whose lease has run out and that nobody else has locked.
    [[nodiscard]] static std::vector<batch_record> lock_overdue(connection& db, timestamp now,
                                                                std::size_t limit);

    /// Reads without a lock.
    [[nodiscard]] static std::optional<batch_record> read(connection& db, fence number);
    [[nodiscard]] static std::vector<batch_record> read_all(connection& db);

    /// Returns: the number that the database gave it.
    [[nodiscard]] fence insert(connection& db) const;

    /// Writes what changed; a batch with no open member left is removed.
    void save(connection& db) const;
};

} // namespace posthorn::mariadb
