// MariaDB's side of the suite, written with its C client alone.
#include "conformance/mariadb_under_test.hpp"

#include "conformance/server_under_test.hpp"
#include <posthorn/mariadb.hpp>

#include <gtest/gtest.h>
#include <mysql.h>

#include <optional>
#include <regex>
#include <stdexcept>
#include <string>

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

class mariadb_database final : public store_under_test {
public:
    mariadb_database()
    {
        client("").run("CREATE DATABASE " + name_);
        mariadb::migrate(url());
    }
    mariadb_database(const mariadb_database&) = delete;
    mariadb_database& operator=(const mariadb_database&) = delete;
    ~mariadb_database() override
    {
        try {
            client db("");
            db.run("SET lock_wait_timeout = 10");
            db.run("DROP DATABASE " + name_);
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the database " << name_ << " stays behind: " << failure.what();
        }
    }

    std::string url() const override { return server_url(mariadb_variable) + name_; }
    store open(const store_options& options) override { return mariadb::open(url(), options); }
    store open_impatient(const store_options& options) override
    {
        return mariadb::open(url() + "?lock_timeout=20ms", options);
    }
    std::unique_ptr<native_connection> connect(const environment& world) override
    {
        return std::make_unique<mariadb_connection>(name_, world);
    }
    std::optional<std::string> run_in(transaction& tx, const std::string& sql) override
    {
        return first_value(mariadb::native_handle(tx), sql);
    }

private:
    std::string name_ = unused_name();
};

} // namespace

std::unique_ptr<store_under_test> make_mariadb()
{
    return std::make_unique<mariadb_database>();
}

} // namespace posthorn::conformance
