// A batch in its row of SQLite's table.
#pragma once

#include "store/contract/batch_record.hpp"
#include "store/sqlite/connection.hpp"

#include <optional>

namespace posthorn::sqlite {

class batch_record : public contract::batch_record {
public:
    using contract::batch_record::batch_record;

    /// Reads a row; nothing if there is no batch of that number.
    [[nodiscard]] static std::optional<batch_record> load(connection& db, fence number);

    void insert(connection& db) const;

    /// Writes what changed; a batch with no open member left is removed.
    void save(connection& db) const;
};

} // namespace posthorn::sqlite
