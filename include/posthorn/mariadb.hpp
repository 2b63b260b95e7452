// MariaDB: a store on a server, and how to enqueue inside a transaction on your own connection.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <string>
#include <string_view>
#include <vector>

struct st_mysql;

namespace posthorn::mariadb {

/// Opens `mariadb://user:password@host:port/database`; its tables must exist: see `migrate`.
/// Every part may be percent-encoded. Parameters: `prefix=posthorn_`, `pool=8`,
/// `connect_timeout=5s`, `lock_timeout=5s`, `statement_timeout=30s`, `socket=PATH`,
/// `tls=off|prefer|require|verify`, `tls_ca=`, `tls_cert=`, `tls_key=`, `password_file=PATH`.
/// Without a password in either, the environment variable MYSQL_PWD is asked.
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

/// Lends Posthorn the transaction that is open on `connection` (a `MYSQL*`).
/// Requires: the connection outlives this object, and has no result that is still being read.
/// Transaction: only statements are executed; an enqueue uses a savepoint. The isolation level
/// stays the caller's; READ COMMITTED is best (docs/mariadb.md says what others mean).
/// Lifetime: may be kept for later transactions on the same connection; it reuses its statements.
class borrowed_transaction : public transaction {
public:
    explicit borrowed_transaction(st_mysql* connection, const borrow_options& options = {});
};

/// The connection of a transaction on this kind of store, for statements of your own that share
/// its fate. Its transaction is open. Never commit, roll back or close it.
/// Throws: `error` with `invalid_argument` for a transaction on another kind of store.
[[nodiscard]] st_mysql* native_handle(transaction& tx);

} // namespace posthorn::mariadb
