// MariaDB's side of the suite, written with its C client alone.
#include "conformance/mariadb_under_test.hpp"

#include "conformance/server_under_test.hpp"
#include "conformance/spares.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/mariadb.hpp>

#include <gtest/gtest.h>
#include <mysql.h>

#include <chrono>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace posthorn::conformance {
namespace {

constexpr const char* mariadb_variable = "POSTHORN_TEST_MARIADB";

// The first column of the first row, or nothing without a row. A CALL has several results.
std::optional<std::string> first_value(MYSQL* db, const std::string& sql)
{
    std::optional<std::string> found;
    int more = mysql_real_query(db, sql.data(), sql.size());
    for (; more == 0; more = mysql_next_result(db)) {
        const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> result(mysql_store_result(db),
                                                                      &mysql_free_result);
        if (auto* const row = result ? mysql_fetch_row(result.get()) : nullptr; row && !found)
            found = row[0] == nullptr ? std::string()
                                      : std::string(row[0], mysql_fetch_lengths(result.get())[0]);
    }
    if (more > 0 || mysql_errno(db) != 0)
        throw std::runtime_error(mysql_error(db));
    return found;
}

// A connection to the server, in one of its databases or in none.
class client {
public:
    explicit client(const std::string& database)
    {
        const auto url = server_url(mariadb_variable);
        std::smatch part;
        if (!std::regex_match(url, part, std::regex("mariadb://([^:@/]+)@([^:/]+):([0-9]+)/?")))
            throw std::runtime_error(std::string(mariadb_variable) +
                                     " is not mariadb://USER@HOST:PORT/");
        mysql_options(db_, MYSQL_SET_CHARSET_NAME, "utf8mb4");
        if (mysql_real_connect(db_, part.str(2).c_str(), part.str(1).c_str(), nullptr,
                               database.empty() ? nullptr : database.c_str(),
                               static_cast<unsigned>(std::stoul(part.str(3))), nullptr,
                               CLIENT_MULTI_RESULTS) == nullptr) {
            const std::string why = mysql_error(db_);
            mysql_close(db_);
            throw std::runtime_error("no connection to MariaDB: " + why);
        }
    }
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    ~client() { mysql_close(db_); }

    std::optional<std::string> run(const std::string& sql) { return first_value(db_, sql); }

    std::string literal(const std::string& text) const
    {
        std::string escaped(2 * text.size() + 1, '\0');
        escaped.resize(mysql_real_escape_string(db_, escaped.data(), text.data(), text.size()));
        return "'" + escaped + "'";
    }

    [[nodiscard]] MYSQL* handle() const { return db_; }

private:
    MYSQL* db_ = mysql_init(nullptr);
};

std::string json_string(const std::string& text)
{
    std::string result = "\"";
    for (const char each : text)
        if (each == '"' || each == '\\')
            result += {'\\', each};
        else if (static_cast<unsigned char>(each) < 0x20)
            result += "\\u00" + hex_of(std::string(1, each));
        else
            result += each;
    return result + "\"";
}

// An option keeps its type inside the JSON document that carries all of them.
std::string json(const sql_value& value)
{
    return std::visit(overloaded{[](std::nullptr_t) { return std::string("null"); },
                                 [](std::int64_t number) { return std::to_string(number); },
                                 [](const std::string& text) { return json_string(text); },
                                 [](const sql_bytes&) -> std::string {
                                     throw std::logic_error("MariaDB's options have no bytes");
                                 },
                                 [](const sql_json& each) { return each.document; },
                                 [](message_id id) { return json_string(to_string(id)); },
                                 [](const sql_raw& each) { return each.literal; }},
                      value);
}

class mariadb_connection final : public native_connection {
public:
    mariadb_connection(const std::string& database, const environment& world) : db_(database)
    {
        loan_.emplace(db_.handle(), mariadb::borrow_options{.environment = world});
    }

    void begin() override { execute("START TRANSACTION"); }
    void commit() override { execute("COMMIT"); }
    void rollback() override { execute("ROLLBACK"); }
    bool in_transaction() const override
    {
        unsigned status = 0;
        mariadb_get_infov(db_.handle(), MARIADB_CONNECTION_SERVER_STATUS, &status);
        return (status & SERVER_STATUS_IN_TRANS) != 0;
    }

    void execute(const std::string& sql) override { (void)db_.run(sql); }
    std::int64_t count(const std::string& sql) override { return std::stoll(text(sql)); }
    std::string text(const std::string& sql) override
    {
        const auto found = db_.run(sql);
        if (!found)
            throw std::runtime_error("no row: " + sql);
        return *found;
    }

    message_id send(const sql_message& message) override
    {
        std::string topic = "NULL";
        std::string payload = "NULL";
        std::string options;
        for (const auto& [name, value] : message)
            if (name == "topic")
                topic = argument(value);
            else if (name == "payload")
                payload = argument(value);
            else
                options += (options.empty() ? "" : ", ") + json_string(name) + ": " + json(value);
        const auto document = options.empty() ? "NULL" : db_.literal("{" + options + "}");
        execute("CALL posthorn_enqueue(" + topic + ", " + payload + ", " + document + ", @id)");
        return message_id::parse(text("SELECT @id")).value();
    }

    std::int64_t rows() override
    {
        return count("SELECT (SELECT count(*) FROM posthorn_message)"
                     "     + (SELECT count(*) FROM posthorn_dedup)");
    }

    timestamp now() override
    {
        return timestamp{std::chrono::microseconds{
            count("SELECT CAST(unix_timestamp(now(6)) * 1000000 AS INTEGER)")}};
    }

    transaction& borrow() override { return *loan_; }

private:
    std::string argument(const sql_value& value)
    {
        if (const auto* text = std::get_if<std::string>(&value))
            return db_.literal(*text);
        if (const auto* bytes = std::get_if<sql_bytes>(&value))
            return "X'" + hex_of(bytes->value) + "'";
        return json(value);
    }

    client db_;
    std::optional<mariadb::borrowed_transaction> loan_; // gone before its connection
};

// A database with Posthorn's tables. To make one takes longer than most tests do, so it can be made
// as good as new.
class renewable_database {
public:
    renewable_database()
    {
        db_.run("SET lock_wait_timeout = 10, group_concat_max_len = 1000000");
        db_.run("CREATE DATABASE " + name_);
        mariadb::migrate(server_url(mariadb_variable) + name_);
        fresh_ = definitions();
    }
    renewable_database(const renewable_database&) = delete;
    renewable_database& operator=(const renewable_database&) = delete;
    ~renewable_database()
    {
        try {
            db_.run("DROP DATABASE " + name_);
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the database " << name_ << " stays behind: " << failure.what();
        }
    }

    [[nodiscard]] const std::string& name() const { return name_; }

    /// Returns: whether it is as it was when it was made. Not so with connections that somebody may
    /// still use, and with other tables, procedures or triggers.
    [[nodiscard]] bool renew()
    {
        if (!is_alone() || definitions() != fresh_)
            return false;
        // DELETE would leave counters as they are, and for a while rows that can be locked.
        std::istringstream written(tables_that_were_written());
        for (std::string table; std::getline(written, table);)
            db_.run("TRUNCATE TABLE " + name_ + "." + table);
        const auto fences = name_ + ".posthorn_lease_fence";
        if (db_.run("SELECT next_not_cached_value FROM " + fences) != "1")
            db_.run("ALTER SEQUENCE " + fences + " RESTART");
        return true;
    }

private:
    // Servers notice a moment later that a client has gone.
    bool is_alone()
    {
        const auto others =
            "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = '" + name_ + "'";
        for (int patience = 100; db_.run(others) != "0"; --patience) {
            if (patience == 0)
                return false;
            environment::system().clock->pause(std::chrono::milliseconds{5});
        }
        return true;
    }

    std::string definitions()
    {
        const auto of = [&](const std::string& what, const std::string& kind) {
            return db_
                .run("SELECT group_concat(concat_ws(' ', " + what +
                     ") ORDER BY 1) FROM information_schema." + kind + "_SCHEMA = '" + name_ + "'")
                .value();
        };
        return of("TABLE_NAME, TABLE_TYPE, ENGINE", "TABLES WHERE TABLE") + "\n" +
               of("TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT",
                  "COLUMNS WHERE TABLE") +
               "\n" +
               of("TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME", "STATISTICS WHERE TABLE") +
               "\n" + of("TRIGGER_NAME", "TRIGGERS WHERE TRIGGER") + "\n" +
               of("ROUTINE_NAME, md5(ROUTINE_DEFINITION)", "ROUTINES WHERE ROUTINE") + "\n" +
               db_.run("SELECT group_concat(version, name, applied_at ORDER BY version) FROM " +
                       name_ + ".posthorn_schema")
                   .value();
    }

    // One to a line.
    std::string tables_that_were_written()
    {
        return db_
            .run("SELECT group_concat(TABLE_NAME SEPARATOR '\\n') FROM information_schema.TABLES "
                 "WHERE TABLE_SCHEMA = '" +
                 name_ +
                 "' AND TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME <> 'posthorn_schema' AND "
                 "(UPDATE_TIME IS NOT NULL OR AUTO_INCREMENT > 1)")
            .value();
    }

    std::string name_ = unused_name();
    client db_{""};
    std::string fresh_;
};

class mariadb_database final : public store_under_test {
public:
    mariadb_database() = default;
    mariadb_database(const mariadb_database&) = delete;
    mariadb_database& operator=(const mariadb_database&) = delete;
    ~mariadb_database() override
    {
        if (is_known_)
            return;
        const auto name = database_->name();
        try {
            spares<renewable_database>::give_back(std::move(database_));
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the database " << name
                          << " does not become new again: " << failure.what();
        }
    }

    std::string url() const override
    {
        is_known_ = true; // who knows the way may come later, too
        return own_url();
    }
    store open(const store_options& options) override { return mariadb::open(own_url(), options); }
    store open_impatient(const store_options& options) override
    {
        return mariadb::open(own_url() + "?lock_timeout=20ms", options);
    }
    std::unique_ptr<native_connection> connect(const environment& world) override
    {
        return std::make_unique<mariadb_connection>(database_->name(), world);
    }
    std::optional<std::string> run_in(transaction& tx, const std::string& sql) override
    {
        return first_value(mariadb::native_handle(tx), sql);
    }

private:
    std::string own_url() const { return server_url(mariadb_variable) + database_->name(); }

    std::unique_ptr<renewable_database> database_ = spares<renewable_database>::take();
    mutable bool is_known_ = false;
};

} // namespace

std::unique_ptr<store_under_test> make_mariadb()
{
    return std::make_unique<mariadb_database>();
}

} // namespace posthorn::conformance
