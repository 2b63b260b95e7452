// SQLite: the embedded store, and how to enqueue inside a transaction on your own connection.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <string>
#include <string_view>

struct sqlite3;

namespace posthorn::sqlite {

/// Opens `sqlite:PATH` or `sqlite::memory:`. The file must hold Posthorn's tables: see `migrate`.
/// Parameters: `prefix=` (tables' names), `busy_timeout=5s`, `synchronous=full|normal`.
/// `sqlite::memory:` is a new empty store with its tables, gone with its last handle.
[[nodiscard]] store open(std::string_view url, const store_options& options = {});

migration_report migrate(std::string_view url, const store_options& options = {});
[[nodiscard]] std::string migration_sql(std::string_view url);
[[nodiscard]] std::vector<finding> diagnose(std::string_view url,
                                            const store_options& options = {});

struct borrow_options {
    std::string prefix = "posthorn_";
    posthorn::environment environment = posthorn::environment::system();
    posthorn::limits limits = {};
};

/// Lends Posthorn the transaction that is open on `connection`.
/// Requires: the connection outlives this object. Begin with BEGIN IMMEDIATE: a deferred
/// transaction that has read before may fail to write, whatever its time-out.
/// Transaction: only statements are executed; many enqueues together use a savepoint.
/// Lifetime: may be kept for later transactions on the same connection; it reuses its statements.
class borrowed_transaction : public transaction {
public:
    explicit borrowed_transaction(sqlite3* connection, const borrow_options& options = {});
};

/// The connection of a transaction on this kind of store, for statements of your own that share
/// its fate. Its transaction is open. Never commit, roll back or close it. Statements that are not
/// read to their end are reset when the transaction ends.
/// Throws: `error` with `invalid_argument` for a transaction on another kind of store.
[[nodiscard]] sqlite3* native_handle(transaction& tx);

} // namespace posthorn::sqlite
