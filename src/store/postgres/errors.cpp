// The table of PostgreSQL's error codes: what each means to us and what may be done about it.
#include "store/contract/held_elsewhere.hpp"
#include "store/postgres/connection.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn::postgres {
namespace {

struct meaning {
    std::string_view native; ///< the code, or the beginning of a class of codes
    error_code code;
    bool retryable;
    std::string_view advice;
};

// Single codes stand before their class: the first match wins.
constexpr std::array meanings{
    meaning{"40P01", error_code::serialization, true,
            "a deadlock: roll back and run the transaction again"},
    meaning{"40001", error_code::serialization, true,
            "another transaction changed the same rows: roll back and run this one again"},
    meaning{"40003", error_code::connection_lost, false, "nobody knows whether it was done"},
    meaning{"40", error_code::serialization, true, "roll back and run the transaction again"},
    meaning{"55P03", error_code::busy, true,
            "another transaction held a row longer than lock_timeout"},
    meaning{"55006", error_code::busy, true, "the object is in use"},
    meaning{"57014", error_code::busy, true, "it took longer than statement_timeout"},
    meaning{"57P03", error_code::unavailable, true, "the server is starting or stopping"},
    meaning{"57P04", error_code::not_found, false, "the database was dropped"},
    meaning{"57P05", error_code::connection_lost, true, "the session was idle for too long"},
    meaning{"57P", error_code::connection_lost, true, "the server ended the connection"},
    meaning{"25P03", error_code::connection_lost, true,
            "the transaction was idle for too long and was rolled back"},
    meaning{"25P02", error_code::no_transaction, false,
            "an earlier statement of this transaction failed: roll it back"},
    meaning{"25006", error_code::read_only, false,
            "this server or session takes no writes; after a failover connect to the primary"},
    meaning{"53100", error_code::storage_full, true,
            "nothing of this transaction was kept; free some disk space and try again"},
    meaning{"53300", error_code::unavailable, true,
            "too many connections: raise max_connections, or lower ?pool="},
    meaning{"53", error_code::unavailable, true, "the server is short of resources"},
    meaning{"08P01", error_code::unsupported, false,
            "the other side does not understand the protocol"},
    meaning{"08", error_code::connection_lost, true, "the connection failed"},
    meaning{"28", error_code::unavailable, false, "check user, password and pg_hba.conf"},
    meaning{"3D000", error_code::not_found, false, "create the database first"},
    meaning{"3F000", error_code::schema_missing, false,
            "run `posthorn init` (or posthorn::migrate) on this database first"},
    meaning{"42P01", error_code::schema_missing, false,
            "run `posthorn init` (or posthorn::migrate) on this database first"},
    meaning{"42501", error_code::read_only, false,
            "this user lacks the right; see docs/postgres.md"},
    meaning{"42883", error_code::schema_outdated, false, "run `posthorn migrate`"},
    meaning{"42703", error_code::schema_outdated, false, "run `posthorn migrate`"},
    meaning{"26000", error_code::unsupported, false,
            "a pooler hands this session to others: say ?pooler=transaction"},
    meaning{"42P05", error_code::unsupported, false,
            "a pooler hands this session to others: say ?pooler=transaction"},
    meaning{"23", error_code::constraint, false, ""},
    meaning{"22", error_code::invalid_argument, false, ""},
    meaning{"54", error_code::invalid_argument, false, "it is larger than PostgreSQL takes"},
    meaning{"0A", error_code::unsupported, false, ""},
    meaning{"58", error_code::unavailable, true, "the server reports an I/O error"},
    meaning{"XX001", error_code::corrupt, false, "restore the database from a backup"},
    meaning{"XX002", error_code::corrupt, false, "rebuild the damaged index with REINDEX"},
};

constexpr meaning no_answer{"", error_code::connection_lost, true, "the server does not answer"};
constexpr meaning replaced{"", error_code::serialization, true,
                           "tables or functions were made anew meanwhile: run it again"};
constexpr meaning unreachable{"", error_code::unavailable, true,
                              "is the server running, and does the URL name it?"};

meaning meaning_of(std::string_view native)
{
    const auto* found = std::ranges::find_if(
        meanings, [&](const meaning& each) { return native.starts_with(each.native); });
    return found == meanings.end() ? meaning{native, error_code::internal, false, ""} : *found;
}

// Five characters of a code as one number, so that it fits `native_code`.
int number_of(std::string_view native)
{
    int result = 0;
    for (const char each : native)
        result = result * 36 + (each <= '9' ? each - '0' : each - 'A' + 10);
    return result;
}

// The first line is the message; details may hold values of the row.
std::string first_line(const char* text)
{
    const std::string_view all = text == nullptr ? "" : text;
    return std::string(all.substr(0, all.find('\n')));
}

// The server finds what a statement names before it locks it. What is dropped and made anew in
// between, it misses in these words, which it never translates.
bool was_replaced(std::string_view native, std::string_view words)
{
    return native == "XX000" && (words.starts_with("cache lookup failed for ") ||
                                 words.starts_with("could not open relation with OID "));
}

meaning choose(PGconn* db, std::string_view native, std::string_view words, std::string_view during)
{
    if (was_replaced(native, words))
        return replaced;
    if (!native.empty())
        return meaning_of(native);
    if (during != "connect" || PQstatus(db) == CONNECTION_OK)
        return no_answer;
    // Before there is a session, libpq gives words and no codes.
    const std::string_view said = PQerrorMessage(db);
    const auto says = [&](std::string_view part) { return said.find(part) != said.npos; };
    if (says("does not exist") && says("database"))
        return meaning_of("3D000");
    if (says("too many clients") || says("too many connections") ||
        says("remaining connection slots"))
        return meaning_of("53300"); // of the server, or "for role …"
    if (says("authentication failed") || says("no password supplied") || says("pg_hba.conf") ||
        says("role"))
        return meaning_of("28000");
    return unreachable;
}

} // namespace

void throw_error(PGconn* db, const PGresult* failed, std::string_view during, commit_sent commit,
                 std::string_view instead)
{
    const char* state = failed == nullptr ? nullptr : PQresultErrorField(failed, PG_DIAG_SQLSTATE);
    const std::string_view native = state == nullptr ? "" : state;
    const bool broken = PQstatus(db) != CONNECTION_OK;
    const bool in_doubt = (broken && commit == commit_sent::yes) || native == "40003";
    const char* said =
        failed == nullptr ? nullptr : PQresultErrorField(failed, PG_DIAG_MESSAGE_PRIMARY);
    const auto words = !instead.empty()  ? std::string(instead)
                       : said != nullptr ? std::string(said)
                                         : first_line(PQerrorMessage(db));
    const auto found = choose(db, native, words, during);
    const auto code = in_doubt ? error_code::connection_lost : found.code;
    const auto text = fmt::format(
        "PostgreSQL: {}{} ({}){}{}", words, native.empty() ? "" : fmt::format(" [{}]", native),
        during, in_doubt || !found.advice.empty() ? ": " : "",
        in_doubt ? "the commit may or may not have happened; look the message "
                   "up by its id"
                 : found.advice);
    const error::properties details{.retryable = found.retryable && !in_doubt,
                                    .in_doubt = in_doubt,
                                    .poisons_connection =
                                        broken || found.code == error_code::connection_lost,
                                    .native_code = number_of(native),
                                    .statement = std::string(during)};
    if (native == "55P03" && !in_doubt)
        throw contract::held_elsewhere(code, text, details);
    throw error(code, text, details);
}

} // namespace posthorn::postgres
