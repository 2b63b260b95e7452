// Raw SQLite: prepared statements, WAL, synchronous=FULL, the same page cache as Posthorn.
#include "bench/sqlite_raw.hpp"

#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>

#include <sqlite3.h>

#include <stdexcept>
#include <vector>

namespace bench {
namespace {

void check(bool fine, sqlite3* db)
{
    if (!fine)
        throw std::runtime_error(sqlite3_errmsg(db));
}

} // namespace

sqlite_raw::sqlite_raw(const std::string& path, bool id_index)
{
    check(sqlite3_open(path.c_str(), &db_) == SQLITE_OK, db_);
    run("PRAGMA journal_mode=WAL");
    run("PRAGMA synchronous=FULL");
    run("PRAGMA cache_size=-16384");
    run("CREATE TABLE raw_queue (seq INTEGER PRIMARY KEY, plain INTEGER NOT NULL, id BLOB NOT "
        "NULL, "
        "created_at INTEGER NOT NULL, topic TEXT NOT NULL, ordering_key TEXT, correlation_id TEXT, "
        "causation_id TEXT, "
        "headers TEXT, payload BLOB NOT NULL, owner TEXT, lease_until INTEGER) STRICT");
    if (id_index)
        run("CREATE UNIQUE INDEX raw_queue_id ON raw_queue (id)");
}

sqlite_raw::~sqlite_raw()
{
    sqlite3_close_v2(db_);
}

void sqlite_raw::run(const char* sql)
{
    check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK, db_);
}

sqlite3_stmt* sqlite_raw::prepare(const char* sql)
{
    sqlite3_stmt* prepared = nullptr;
    check(sqlite3_prepare_v2(db_, sql, -1, &prepared, nullptr) == SQLITE_OK, db_);
    return prepared;
}

void sqlite_raw::insert(std::size_t messages, std::size_t per_transaction, std::string_view topic,
                        std::string_view payload)
{
    const auto world = posthorn::environment::system();
    auto* begin = prepare("BEGIN IMMEDIATE");
    auto* commit = prepare("COMMIT");
    auto* insert = prepare(
        "INSERT INTO raw_queue (plain, id, created_at, topic, payload) VALUES (1, ?, ?, ?, ?)");
    for (std::size_t done = 0; done < messages;) {
        check(sqlite3_step(begin) == SQLITE_DONE, db_);
        sqlite3_reset(begin);
        for (std::size_t i = 0; i < per_transaction && done < messages; ++i, ++done) {
            const auto now = world.clock->now();
            const auto id = posthorn::uuid::version_7(now, *world.random);
            sqlite3_bind_blob(insert, 1, id.bytes.data(), 16, SQLITE_STATIC);
            sqlite3_bind_int64(insert, 2, now.time_since_epoch().count());
            sqlite3_bind_text(insert, 3, topic.data(), static_cast<int>(topic.size()),
                              SQLITE_STATIC);
            sqlite3_bind_blob(insert, 4, payload.data(), static_cast<int>(payload.size()),
                              SQLITE_STATIC);
            check(sqlite3_step(insert) == SQLITE_DONE, db_);
            sqlite3_reset(insert);
        }
        check(sqlite3_step(commit) == SQLITE_DONE, db_);
        sqlite3_reset(commit);
    }
    for (auto* each : {begin, commit, insert})
        sqlite3_finalize(each);
}

std::size_t sqlite_raw::claim_and_delete(std::size_t messages, std::size_t batch)
{
    const auto world = posthorn::environment::system();
    auto* begin = prepare("BEGIN IMMEDIATE");
    auto* commit = prepare("COMMIT");
    auto* claim = prepare("UPDATE raw_queue SET owner = 'bench', lease_until = ?1 WHERE seq IN "
                          "(SELECT seq FROM raw_queue WHERE owner IS NULL ORDER BY seq LIMIT ?2) "
                          "RETURNING seq, id, created_at, topic, ordering_key, correlation_id, "
                          "causation_id, headers, payload");
    auto* remove = prepare("DELETE FROM raw_queue WHERE seq = ?1 AND owner = 'bench'");
    std::size_t bytes = 0;
    std::vector<sqlite3_int64> seqs;
    for (std::size_t done = 0; done < messages; done += seqs.size()) {
        seqs.clear();
        check(sqlite3_step(begin) == SQLITE_DONE, db_);
        sqlite3_reset(begin);
        sqlite3_bind_int64(claim, 1, world.clock->now().time_since_epoch().count() + 30'000'000);
        sqlite3_bind_int64(claim, 2, static_cast<sqlite3_int64>(batch));
        while (sqlite3_step(claim) == SQLITE_ROW) {
            seqs.push_back(sqlite3_column_int64(claim, 0));
            const auto* payload = static_cast<const char*>(sqlite3_column_blob(claim, 8));
            bytes += std::string(payload, static_cast<std::size_t>(sqlite3_column_bytes(claim, 8)))
                         .size();
        }
        check(sqlite3_reset(claim) == SQLITE_OK, db_);
        check(sqlite3_step(commit) == SQLITE_DONE, db_);
        sqlite3_reset(commit);
        if (seqs.empty())
            throw std::runtime_error("the raw queue is empty too early");

        check(sqlite3_step(begin) == SQLITE_DONE, db_);
        sqlite3_reset(begin);
        for (const auto seq : seqs) {
            sqlite3_bind_int64(remove, 1, seq);
            check(sqlite3_step(remove) == SQLITE_DONE, db_);
            sqlite3_reset(remove);
        }
        check(sqlite3_step(commit) == SQLITE_DONE, db_);
        sqlite3_reset(commit);
    }
    for (auto* each : {begin, commit, claim, remove})
        sqlite3_finalize(each);
    return bytes;
}

} // namespace bench
