// A store is one database (and table prefix) that holds Posthorn's tables.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>
#include <posthorn/transaction.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

namespace contract {
class backend;
}

/// What every kind of store can be given when it is opened.
struct store_options {
    posthorn::environment environment = posthorn::environment::system();
    posthorn::limits limits = {};
};

/// A handle to an open store; copies share it. Threads: safe to use from any.
class store {
public:
    explicit store(std::shared_ptr<contract::backend> backend);

    /// Opens a transaction that may write. Throws: `error` with `busy` if the store stays locked.
    [[nodiscard]] transaction begin();

    /// Opens a short consistent view for reading; it never blocks writers.
    [[nodiscard]] transaction read();

    [[nodiscard]] const posthorn::environment& environment() const;
    [[nodiscard]] contract::backend& backend() const { return *backend_; }
    [[nodiscard]] const std::shared_ptr<contract::backend>& share() const { return backend_; }

private:
    std::shared_ptr<contract::backend> backend_;
};

/// Opens the store a URL names: `sqlite:PATH`, `sqlite::memory:`,
/// `postgresql://user@host/database?schema=posthorn`, `mariadb://user@host/database`.
/// Throws: `error` — never creates anything: see `migrate`.
[[nodiscard]] store open(std::string_view url, const store_options& options = {});

/// What a migration did.
struct migration_report {
    int version_before = 0; ///< 0: there were no tables
    int version_after = 0;
    std::vector<std::string> applied;
};

/// Brings the tables of a store up to date, creating them and
/// an SQLite file if need be. Repeating it is harmless.
migration_report migrate(std::string_view url, const store_options& options = {});

/// The SQL that `migrate` would run on an empty database.
[[nodiscard]] std::string migration_sql(std::string_view url);

enum class severity { ok, warning, problem };

[[nodiscard]] std::string_view to_string(severity level) noexcept;

/// One thing a diagnosis looked at.
struct finding {
    severity level = severity::ok;
    std::string check;
    std::string detail;
    std::string advice = {};
};

/// Looks a store over: version, durability, indexes, drift between tables. Changes nothing.
[[nodiscard]] std::vector<finding> diagnose(std::string_view url,
                                            const store_options& options = {});

} // namespace posthorn
