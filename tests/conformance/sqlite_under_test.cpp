// SQLite's side of the suite, written with its C interface alone.
#include "conformance/sqlite_under_test.hpp"

#include <posthorn/sqlite.hpp>

#include <sqlite3.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace posthorn::conformance {
namespace {

std::string sqlite_literal(const sql_value& value)
{
    return std::visit(
        overloaded{[](std::nullptr_t) { return std::string("NULL"); },
                   [](std::int64_t number) { return std::to_string(number); },
                   [](const std::string& text) {
                       return text.find('\0') == std::string::npos
                                  ? sql_quoted(text)
                                  : "CAST(X'" + hex_of(text) + "' AS TEXT)";
                   },
                   [](const sql_bytes& each) { return "X'" + hex_of(each.value) + "'"; },
                   [](const sql_json& each) { return sql_quoted(each.document); },
                   [](message_id id) { return "X'" + hex_of(id) + "'"; },
                   [](const sql_raw& each) { return each.literal; }},
        value);
}

/// The first column of the first row, or nothing without a row.
std::optional<std::string> first_value(sqlite3* db, const std::string& sql)
{
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK)
        throw std::runtime_error(sqlite3_errmsg(db));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owned(prepared, &sqlite3_finalize);
    const int code = sqlite3_step(prepared);
    if (code == SQLITE_DONE)
        return std::nullopt;
    if (code != SQLITE_ROW)
        throw std::runtime_error(sqlite3_errmsg(db));
    const auto* found = sqlite3_column_text(prepared, 0);
    return found == nullptr ? "" : reinterpret_cast<const char*>(found);
}

class sqlite_connection final : public native_connection {
public:
    sqlite_connection(const std::string& path, const environment& world)
    {
        check(sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE, nullptr));
        check(sqlite3_busy_timeout(db_, 60'000)); // it is unfair to those who wait
        loan_.emplace(db_, sqlite::borrow_options{.environment = world});
    }
    sqlite_connection(const sqlite_connection&) = delete;
    sqlite_connection& operator=(const sqlite_connection&) = delete;
    ~sqlite_connection() override
    {
        loan_.reset();
        sqlite3_close(db_);
    }

    void begin() override { execute("BEGIN IMMEDIATE"); }
    void commit() override { execute("COMMIT"); }
    void rollback() override { execute("ROLLBACK"); }
    bool in_transaction() const override { return sqlite3_get_autocommit(db_) == 0; }

    void execute(const std::string& sql) override
    {
        check(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr));
    }

    std::int64_t count(const std::string& sql) override { return std::stoll(text(sql)); }

    std::string text(const std::string& sql) override
    {
        const auto found = first_value(db_, sql);
        if (!found)
            throw std::runtime_error("no row: " + sql);
        return *found;
    }

    // An INSERT returns nothing: the newest message is the one, or the one that it repeats as long
    // as nothing was added in between.
    message_id send(const sql_message& message) override
    {
        std::string columns;
        std::string values;
        for (const auto& [name, value] : message) {
            columns += (columns.empty() ? "" : ", ") + name;
            values += (values.empty() ? "" : ", ") + sqlite_literal(value);
        }
        execute("INSERT INTO posthorn_enqueue (" + columns + ") VALUES (" + values + ")");
        return message_id::parse(
                   text("SELECT lower(hex(id)) FROM posthorn_message ORDER BY seq DESC"))
            .value();
    }

    std::int64_t rows() override
    {
        return count("SELECT (SELECT count(*) FROM posthorn_message)"
                     "     + (SELECT count(*) FROM posthorn_queue)"
                     "     + (SELECT count(*) FROM posthorn_dedup)");
    }

    timestamp now() override
    {
        return timestamp{std::chrono::milliseconds{
            count("SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000"
                  "     + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)")}};
    }

    transaction& borrow() override { return *loan_; }

private:
    void check(int code) const
    {
        if (code != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(db_));
    }

    sqlite3* db_ = nullptr;
    std::optional<sqlite::borrowed_transaction> loan_;
};

class sqlite_file final : public store_under_test {
public:
    sqlite_file()
    {
        auto folder = (std::filesystem::temp_directory_path() / "posthorn-XXXXXX").string();
        if (mkdtemp(folder.data()) == nullptr)
            throw std::runtime_error("no temporary folder: " + folder);
        folder_ = folder;
        migrate(url());
    }
    sqlite_file(const sqlite_file&) = delete;
    sqlite_file& operator=(const sqlite_file&) = delete;
    ~sqlite_file() override
    {
        std::error_code ignored; // a folder that stays behind must not fail a test
        std::filesystem::remove_all(folder_, ignored);
    }

    std::string url() const override { return "sqlite:" + path(); }
    store open(const store_options& options) override
    {
        // The machine may be busy with other tests: what is tested is not how long a disk takes.
        return posthorn::open(url() + "?busy_timeout=60s", options);
    }
    store open_impatient(const store_options& options) override
    {
        return posthorn::open(url() + "?busy_timeout=20ms", options);
    }
    std::unique_ptr<native_connection> connect(const environment& world) override
    {
        return std::make_unique<sqlite_connection>(path(), world);
    }
    std::optional<std::string> run_in(transaction& tx, const std::string& sql) override
    {
        return first_value(sqlite::native_handle(tx), sql);
    }

private:
    [[nodiscard]] std::string path() const { return (folder_ / "store.db").string(); }

    std::filesystem::path folder_;
};

class sqlite_memory final : public store_under_test {
public:
    std::string url() const override { return "sqlite::memory:"; }
    store open(const store_options& options) override { return posthorn::open(url(), options); }
    store open_impatient(const store_options& options) override
    {
        return posthorn::open(url() + "?busy_timeout=20ms", options);
    }
    std::unique_ptr<native_connection> connect(const environment& /*world*/) override
    {
        throw std::logic_error("nobody else can connect to a store in memory");
    }
    std::optional<std::string> run_in(transaction& tx, const std::string& sql) override
    {
        return first_value(sqlite::native_handle(tx), sql);
    }
};

} // namespace

std::unique_ptr<store_under_test> make_sqlite_file()
{
    return std::make_unique<sqlite_file>();
}

std::unique_ptr<store_under_test> make_sqlite_memory()
{
    return std::make_unique<sqlite_memory>();
}

} // namespace posthorn::conformance
