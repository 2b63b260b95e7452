// The table of SQLite's result codes: what each means to us and what may be done about it.
#include "store/sqlite/connection.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace posthorn::sqlite {
namespace {

struct meaning {
    int native;
    error_code code;
    bool retryable;
    std::string_view advice;
};

// Extended codes stand before their primary code: the first match wins.
constexpr std::array meanings{
    meaning{SQLITE_BUSY_SNAPSHOT, error_code::busy, true,
            "another connection wrote after this transaction had read; roll back, and begin with "
            "BEGIN IMMEDIATE"},
    meaning{SQLITE_BUSY, error_code::busy, true,
            "another transaction held the database for too long"},
    meaning{SQLITE_LOCKED, error_code::busy, true,
            "a statement of the same connection is still running"},
    meaning{SQLITE_READONLY, error_code::read_only, false,
            "make the file and its folder writable for this user"},
    meaning{SQLITE_FULL, error_code::storage_full, true,
            "nothing of this transaction was kept; free some disk space and try again"},
    meaning{SQLITE_CORRUPT, error_code::corrupt, false, "restore the file from a backup"},
    meaning{SQLITE_NOTADB, error_code::corrupt, false, "this file is not an SQLite database"},
    meaning{SQLITE_CANTOPEN, error_code::not_found, false,
            "check the path; `posthorn init` creates a new store"},
    meaning{SQLITE_PERM, error_code::read_only, false, "check the file's permissions"},
    meaning{SQLITE_AUTH, error_code::read_only, false, "check the file's permissions"},
    meaning{SQLITE_CONSTRAINT, error_code::constraint, false, ""},
    meaning{SQLITE_TOOBIG, error_code::invalid_argument, false,
            "the value is larger than SQLite takes"},
    meaning{SQLITE_IOERR, error_code::unavailable, true,
            "the operating system reports an I/O error"},
    meaning{SQLITE_PROTOCOL, error_code::busy, true,
            "too many connections wanted to read the write-ahead log at once"},
    meaning{SQLITE_NOMEM, error_code::unavailable, true, "there is not enough memory"},
    meaning{SQLITE_INTERRUPT, error_code::busy, true, "the statement was interrupted"},
    meaning{SQLITE_SCHEMA, error_code::schema_foreign, true, "the tables changed while being read"},
};

constexpr meaning too_many_files{SQLITE_CANTOPEN, error_code::unavailable, true,
                                 "too many files are open: raise the limit (ulimit -n)"};

bool out_of_files(sqlite3* db)
{
    if (db == nullptr || (sqlite3_errcode(db) & 0xff) != SQLITE_CANTOPEN)
        return false;
    const int reason = sqlite3_system_errno(db);
    return reason == EMFILE || reason == ENFILE;
}

meaning meaning_of(int native, std::string_view message)
{
    // "no such table" has no code of its own.
    if ((native & 0xff) == SQLITE_ERROR && message.starts_with("no such table"))
        return {native, error_code::schema_missing, false,
                "run `posthorn init` (or posthorn::migrate) on this database first"};
    const auto* found = std::ranges::find_if(meanings, [&](const meaning& each) {
        return each.native == native || each.native == (native & 0xff);
    });
    return found == meanings.end() ? meaning{native, error_code::internal, false, ""} : *found;
}

} // namespace

void throw_error(sqlite3* db, int code, std::string_view during)
{
    const int native = db == nullptr ? code : sqlite3_extended_errcode(db);
    const std::string message = db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db);
    // A file that opened for reading only has no room for the log beside it: SQLite then says
    // "cannot open".
    const bool log_refused =
        (native & 0xff) == SQLITE_CANTOPEN && db != nullptr && sqlite3_db_readonly(db, "main") == 1;
    const auto found = out_of_files(db)
                           ? too_many_files
                           : meaning_of(log_refused ? SQLITE_READONLY : native, message);
    // When the commit itself meets an I/O error, what
    // was written may still come back after a crash.
    const bool commit_failed_halfway = during == "commit" && (native & 0xff) == SQLITE_IOERR;
    throw error(found.code,
                found.advice.empty()
                    ? fmt::format("SQLite: {} ({})", message, during)
                    : fmt::format("SQLite: {} ({}): {}", message, during, found.advice),
                {.retryable = found.retryable,
                 .in_doubt = commit_failed_halfway,
                 .poisons_connection = found.code == error_code::corrupt || commit_failed_halfway,
                 .native_code = native,
                 .statement = std::string(during)});
}

} // namespace posthorn::sqlite
