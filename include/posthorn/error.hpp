// The one exception type: what went wrong in words, and what may be done about it in properties.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace posthorn {

enum class error_code {
    invalid_argument, ///< the caller passed something that can never work
    no_transaction,   ///< a borrowed connection has no transaction open
    not_found,        ///< the database file or object does not exist
    schema_missing,   ///< the database has no Posthorn tables
    schema_newer,     ///< the tables were made by a newer Posthorn
    schema_foreign,   ///< tables of these names exist, but are not Posthorn's
    schema_outdated,  ///< the tables are older than this library needs
    read_only,        ///< the database cannot be written
    corrupt,          ///< the database file is damaged or not a database
    storage_full,     ///< the disk or quota is full; nothing of the transaction was kept
    busy,             ///< another transaction held the database for too long
    serialization,    ///< deadlock or serialization failure: run the transaction again
    constraint,       ///< the database refused the row
    connection_lost,  ///< the server went away
    unavailable,      ///< the server or file cannot be reached
    unsupported,      ///< this build or engine cannot do it
    lease_lost,       ///< somebody else may have the lease by now
    stopped,          ///< the call was told to stop; nothing of it was kept
    internal,         ///< a bug: please report it
};

[[nodiscard]] std::string_view to_string(error_code code) noexcept;

/// Thrown when an operation could not be carried out. Expected answers are returned, never thrown.
class error : public std::runtime_error {
public:
    struct properties {
        bool retryable = false; ///< the same call may succeed later
        bool in_doubt = false;  ///< the commit may or may not have happened: look it up by id
        bool poisons_connection = false; ///< the connection must not be used again
        int native_code = 0;             ///< the engine's own code, 0 if none
        std::string statement = {};      ///< the name of the statement, never its values
    };

    error(error_code code, const std::string& what);
    error(error_code code, const std::string& what, properties details);

    [[nodiscard]] error_code code() const noexcept { return code_; }
    [[nodiscard]] bool retryable() const noexcept { return details_.retryable; }
    [[nodiscard]] bool in_doubt() const noexcept { return details_.in_doubt; }
    [[nodiscard]] bool poisons_connection() const noexcept { return details_.poisons_connection; }
    [[nodiscard]] int native_code() const noexcept { return details_.native_code; }
    [[nodiscard]] const std::string& statement() const noexcept { return details_.statement; }

private:
    error_code code_;
    properties details_;
};

} // namespace posthorn
