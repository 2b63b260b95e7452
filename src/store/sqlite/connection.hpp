// A thin layer over SQLite's C interface: connections,
// prepared statements, and errors with properties.
#pragma once

#include "store/contract/named_statement.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::sqlite {

/// Throws what SQLite's last error on this connection means. `during` names the statement.
[[noreturn]] void throw_error(sqlite3* db, int code, std::string_view during);

/// One execution of a prepared statement; gives the statement back, reset, when it goes.
/// Text and blobs are bound by reference: they must outlive the execution.
class query {
public:
    query(sqlite3* db, sqlite3_stmt* prepared, std::string_view name)
        : db_(db), prepared_(prepared), name_(name)
    {}
    query(const query&) = delete;
    query& operator=(const query&) = delete;
    ~query();

    query& bind(int parameter, std::int64_t value);
    query& bind(int parameter, timestamp value)
    {
        return bind(parameter, value.time_since_epoch().count());
    }
    query& bind(int parameter, fence value)
    {
        return bind(parameter, static_cast<std::int64_t>(value));
    }
    query& bind(int parameter, const std::optional<timestamp>& value);
    query& bind(int parameter, const message_id& id) { return bind_blob(parameter, bytes_of(id)); }
    query& bind_text(int parameter, std::string_view value);
    query& bind_text_or_null(int parameter, std::string_view value);
    query& bind_blob(int parameter, std::string_view value);

    /// True while there is another row.
    bool step();

    /// Runs a statement that gives no rows.
    void run();

    [[nodiscard]] bool is_null(int column) const;
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] timestamp time(int column) const { return timestamp{duration{integer(column)}}; }
    [[nodiscard]] std::optional<timestamp> time_or_none(int column) const;
    [[nodiscard]] std::string_view text(
        int column) const; ///< holds until the next step; NULL is empty
    [[nodiscard]] message_id id(int column) const;

private:
    static std::string_view bytes_of(const message_id& id);
    void check(int code) const;

    sqlite3* db_;
    sqlite3_stmt* prepared_;
    std::string_view name_;
};

/// A connection with its prepared statements, owned or lent by the caller. Threads: one at a time.
class connection {
public:
    struct settings {
        std::string prefix;
        duration busy_timeout = std::chrono::seconds{5};
        duration nap_max = std::chrono::microseconds{50}; ///< between two tries for a locked file
        bool synchronous_full = true;
        posthorn::environment environment;
    };

    enum class access { existing, create, memory };

    /// Opens a file of its own.
    connection(const std::string& path, access how, settings with);

    /// Uses the caller's connection, changing nothing about it.
    connection(sqlite3* lent, settings with);

    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection();

    /// The statement, prepared once and kept.
    [[nodiscard]] query use(const contract::named_statement& which);

    /// Runs SQL text as it is; `during` names it in errors. For schema work and pragmas.
    void execute(const std::string& sql, std::string_view during);
    [[nodiscard]] std::string pragma(const std::string& name);

    [[nodiscard]] std::string with_prefix(std::string_view text) const;
    [[nodiscard]] sqlite3* handle() const noexcept { return db_; }
    [[nodiscard]] const std::string& prefix() const noexcept { return settings_.prefix; }
    [[nodiscard]] std::int64_t changes() const { return sqlite3_changes64(db_); }
    /// Whether its path still leads to the file that it has open: another may have taken its place.
    [[nodiscard]] bool is_at_its_path() const;

    [[nodiscard]] bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

private:
    static int when_busy(void* self, int times);
    void configure(access how);

    /// What the file system knows a file by. None: there is no file there, or nothing to say.
    using file_identity = std::optional<std::pair<std::uint64_t, std::uint64_t>>;
    static file_identity identity_of(const std::string& path);

    sqlite3* db_ = nullptr;
    bool owned_;
    std::string path_; ///< empty: in memory, or lent
    file_identity opened_;
    settings settings_;
    std::vector<sqlite3_stmt*> prepared_;
    monotonic_time busy_since_;
};

} // namespace posthorn::sqlite
