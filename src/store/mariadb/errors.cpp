// The table of MariaDB's error codes: what each means to us and what may be done about it.
#include "store/mariadb/connection.hpp"
#include <posthorn/error.hpp>

#include <errmsg.h>
#include <fmt/format.h>
#include <mysqld_error.h>

#include <algorithm>
#include <array>

namespace posthorn::mariadb {
namespace {

struct meaning {
    unsigned native;
    error_code code;
    bool retryable;
    std::string_view advice;
};

constexpr std::string_view come_back =
    "the server went away or restarts; the next call connects again";

// Codes without a name here are newer or older than the headers of some supported version.
constexpr std::array meanings{
    meaning{ER_LOCK_DEADLOCK, error_code::serialization, true,
            "two transactions wanted the same rows in opposite order; run the transaction again"},
    meaning{ER_CHECKREAD, error_code::serialization, true,
            "another transaction changed the row first; run the transaction again"},
    meaning{ER_LOCK_WAIT_TIMEOUT, error_code::busy, true,
            "another transaction held a lock for too long; raise lock_timeout or end it sooner"},
    meaning{ER_STATEMENT_TIMEOUT, error_code::busy, true,
            "the statement took too long; raise statement_timeout"},
    meaning{3024, error_code::busy, true, "the statement took too long; raise statement_timeout"},
    meaning{ER_QUERY_INTERRUPTED, error_code::busy, true, "somebody killed the statement"},
    meaning{CR_SERVER_GONE_ERROR, error_code::connection_lost, true, come_back},
    meaning{CR_SERVER_LOST, error_code::connection_lost, true, come_back},
    meaning{CR_SERVER_LOST_EXTENDED, error_code::connection_lost, true, come_back},
    meaning{ER_CONNECTION_KILLED, error_code::connection_lost, true,
            "somebody killed the connection; the next call connects again"},
    meaning{ER_SERVER_SHUTDOWN, error_code::connection_lost, true, come_back},
    meaning{ER_NORMAL_SHUTDOWN, error_code::connection_lost, true, come_back},
    meaning{ER_NET_READ_ERROR, error_code::connection_lost, true, come_back},
    meaning{ER_NET_READ_INTERRUPTED, error_code::connection_lost, true, come_back},
    meaning{CR_CONNECTION_ERROR, error_code::unavailable, true,
            "is the server running, and is the socket's path right?"},
    meaning{CR_CONN_HOST_ERROR, error_code::unavailable, true,
            "is the server running, and are host and port right?"},
    meaning{CR_UNKNOWN_HOST, error_code::unavailable, true, "check the host's name"},
    meaning{CR_SSL_CONNECTION_ERROR, error_code::unavailable, false,
            "check the tls parameters of the URL and the server's certificate"},
    meaning{ER_CON_COUNT_ERROR, error_code::unavailable, true,
            "the server has no connection left; lower pool= or raise max_connections"},
    meaning{ER_TOO_MANY_USER_CONNECTIONS, error_code::unavailable, true,
            "this user has no connection left; lower pool= or raise max_user_connections"},
    meaning{ER_USER_LIMIT_REACHED, error_code::unavailable, true, "this user's limit is reached"},
    meaning{ER_ACCESS_DENIED_ERROR, error_code::unavailable, false,
            "check user and password, and from where this user may connect"},
    meaning{ER_DBACCESS_DENIED_ERROR, error_code::unavailable, false,
            "this user has no rights on the database; docs/mariadb.md lists them"},
    meaning{ER_TABLEACCESS_DENIED_ERROR, error_code::read_only, false,
            "this user lacks a right on the tables; docs/mariadb.md lists them"},
    meaning{ER_COLUMNACCESS_DENIED_ERROR, error_code::read_only, false,
            "this user lacks a right on the tables; docs/mariadb.md lists them"},
    meaning{ER_SPECIFIC_ACCESS_DENIED_ERROR, error_code::read_only, false,
            "this user lacks a right; docs/mariadb.md lists them"},
    meaning{ER_PROCACCESS_DENIED_ERROR, error_code::read_only, false,
            "this user lacks a right on the procedure; docs/mariadb.md lists them"},
    meaning{ER_BAD_DB_ERROR, error_code::not_found, false,
            "create the database first: CREATE DATABASE …"},
    meaning{ER_NO_SUCH_TABLE, error_code::schema_missing, false,
            "run `posthorn init` (or posthorn::migrate) on this database first"},
    meaning{ER_BAD_FIELD_ERROR, error_code::schema_foreign, false,
            "a table has other columns than Posthorn's"},
    meaning{ER_DUP_ENTRY, error_code::constraint, false, ""},
    meaning{ER_DUP_KEY, error_code::constraint, false, ""},
    meaning{ER_DATA_TOO_LONG, error_code::constraint, false, ""},
    meaning{ER_OPTION_PREVENTS_STATEMENT, error_code::read_only, false,
            "the server is read-only; connect to the one that may be written"},
    meaning{1836, error_code::read_only, false,
            "the server is read-only; connect to the one that may be written"},
    meaning{ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, error_code::read_only, false,
            "this transaction only reads"},
    meaning{ER_RECORD_FILE_FULL, error_code::storage_full, true,
            "nothing of this statement was kept; free some disk space and try again"},
    meaning{ER_DISK_FULL, error_code::storage_full, true,
            "nothing of this statement was kept; free some disk space and try again"},
    meaning{ER_NET_PACKET_TOO_LARGE, error_code::invalid_argument, false,
            "the message is larger than the server takes; raise its max_allowed_packet"},
    meaning{CR_NET_PACKET_TOO_LARGE, error_code::invalid_argument, false,
            "the message is larger than the client takes; raise max_allowed_packet"},
    meaning{ER_CANT_AGGREGATE_2COLLATIONS, error_code::internal, false, ""},
    meaning{ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, error_code::unsupported, false,
            "set binlog_format to ROW or MIXED: InnoDB takes nothing else at READ COMMITTED"},
    meaning{ER_ERROR_DURING_COMMIT, error_code::unavailable, false,
            "the server failed in the middle of a commit; look up what it kept"},
    meaning{ER_CANT_CREATE_THREAD, error_code::unavailable, true, "the server is out of memory"},
    meaning{ER_OUTOFMEMORY, error_code::unavailable, true, "the server is out of memory"},
    // Galera: the node has lost its cluster, or is catching up with it.
    meaning{ER_UNKNOWN_COM_ERROR, error_code::unavailable, true,
            "this node is not ready; use another one, or wait until it has caught up"},
    meaning{ER_NOT_KEYFILE, error_code::corrupt, false, "check the table: CHECK TABLE …"},
    meaning{ER_CRASHED_ON_USAGE, error_code::corrupt, false, "check the table: CHECK TABLE …"},
    meaning{ER_TABLE_CORRUPT, error_code::corrupt, false, "check the table: CHECK TABLE …"},
};

meaning meaning_of(const complaint& said)
{
    // InnoDB reports a full disk as an error of the operating system inside another one.
    if (said.words.find("No space left on device") != std::string::npos)
        return {said.code, error_code::storage_full, true,
                "nothing of this statement was kept; free some disk space and try again"};
    const auto* found = std::ranges::find(meanings, said.code, &meaning::native);
    return found == meanings.end() ? meaning{said.code, error_code::internal, false, ""} : *found;
}

} // namespace

complaint complaint_of(MYSQL* db)
{
    return {mysql_errno(db), mysql_error(db)};
}

complaint complaint_of(MYSQL_STMT* statement)
{
    return {mysql_stmt_errno(statement), mysql_stmt_error(statement)};
}

bool is_lost_connection(unsigned code) noexcept
{
    const auto* found = std::ranges::find(meanings, code, &meaning::native);
    return found != meanings.end() && found->code == error_code::connection_lost;
}

void throw_error(const complaint& said, std::string_view during)
{
    const auto found = meaning_of(said);
    const bool lost = is_lost_connection(said.code);
    // A commit that failed may have been carried out all the same, unless the server says that it
    // gave the transaction up.
    const bool in_doubt = during == "commit" && found.code != error_code::serialization;
    auto text = fmt::format("MariaDB: {} ({})", said.words, during);
    if (in_doubt)
        text += ": whether the transaction was committed is not known; look it up";
    else if (!found.advice.empty())
        text += fmt::format(": {}", found.advice);
    const error::properties details{.retryable = found.retryable && !in_doubt,
                                    .in_doubt = in_doubt,
                                    .poisons_connection = lost || in_doubt,
                                    .native_code = static_cast<int>(said.code),
                                    .statement = std::string(during)};
    if (said.code == ER_LOCK_WAIT_TIMEOUT && !in_doubt)
        throw contract::held_elsewhere(found.code, text, details);
    throw error(found.code, text, details);
}

} // namespace posthorn::mariadb
