// PostgreSQL: a store in a database server, and how to enqueue inside a transaction on your own
// connection.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <string>
#include <string_view>
#include <vector>

struct pg_conn;

namespace posthorn::postgres {

/// Opens `postgresql://user@host:port/database`. The schema must hold Posthorn's tables: see
/// `migrate`. Parameters: `schema=posthorn`, `pool=8` (connections), `lock_timeout=5s`,
/// `statement_timeout=30s`, `pooler=none|transaction` (say `transaction` behind pgbouncer), and
/// those of libpq (`sslmode`, `connect_timeout`, …). A lost server is tried for some seconds.
[[nodiscard]] store open(std::string_view url, const store_options& options = {});

migration_report migrate(std::string_view url, const store_options& options = {});
[[nodiscard]] std::string migration_sql(std::string_view url);
[[nodiscard]] std::vector<finding> diagnose(std::string_view url,
                                            const store_options& options = {});

struct borrow_options {
    std::string schema = "posthorn";

    /// Whether workers that sleep are woken at once. Say false if the transaction will be prepared
    /// (two-phase commit): PostgreSQL prepares none that has sent a notification.
    bool ring = true;

    posthorn::environment environment = posthorn::environment::system();
    posthorn::limits limits = {};
};

/// Lends Posthorn the transaction that is open on `connection` (a `PGconn*`).
/// Requires: the connection outlives this object and is not in pipeline mode.
/// Transaction: only statements are executed, with the caller's isolation and time-outs; nothing is
/// prepared, so a pooler does no harm. An error of the server leaves the transaction failed, as any
/// other statement would: use a savepoint to go on after one.
/// Lifetime: may be kept for later transactions on the same connection.
class borrowed_transaction : public transaction {
public:
    explicit borrowed_transaction(pg_conn* connection, const borrow_options& options = {});
};

/// The connection of a transaction on this kind of store, for statements of your own that share
/// its fate. It is not in pipeline mode, and its transaction is open. Never commit, roll back or
/// close it. Throws: `error` with `invalid_argument` for a transaction on another kind of store.
[[nodiscard]] pg_conn* native_handle(transaction& tx);

} // namespace posthorn::postgres
