// Statements of the application in Posthorn's transactions, on the engine that a URL names.
#pragma once

#include <posthorn/transaction.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace users {

/// A row with this unique value is there already.
class duplicate_row : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class sql {
public:
    using row = std::vector<std::string>;
    using values = std::vector<std::string>;

    struct answer {
        std::vector<row> rows;
        std::size_t changed = 0;
    };

    explicit sql(std::string_view url);

    /// Each `?` stands for one value.
    /// Throws: `duplicate_row`, and `posthorn::error`: `serialization` has the whole transaction
    /// run again by whoever began it, `busy` is for the client to try later.
    answer run(posthorn::transaction& tx, const std::string& statement,
               const values& with = {}) const
    {
        return engine_->run(tx, statement, with);
    }

    /// What a CREATE TABLE ends with.
    [[nodiscard]] std::string table_options() const { return engine_->table_options; }

    /// Whether a CREATE TABLE commits, and so ends the transaction that it is in.
    [[nodiscard]] bool tables_commit() const { return engine_->tables_commit; }

private:
    struct engine {
        answer (*run)(posthorn::transaction&, const std::string&, const values&);
        std::string table_options;
        bool tables_commit = false;
    };
    static const engine on_sqlite, on_postgres, on_mariadb;

    const engine* engine_;
};

} // namespace users
