// PostgreSQL's side of the suite, written with libpq alone.
#include "conformance/postgres_under_test.hpp"

#include "conformance/server_under_test.hpp"
#include <posthorn/postgres.hpp>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <optional>
#include <stdexcept>
#include <string>

namespace posthorn::conformance {
namespace {

constexpr const char* postgres_variable = "POSTHORN_TEST_POSTGRESQL";

std::string postgres_literal(const sql_value& value)
{
    return std::visit(
        overloaded{[](std::nullptr_t) { return std::string("NULL"); },
                   [](std::int64_t number) { return std::to_string(number); },
                   [](const std::string& text) {
                       return text.find('\0') == std::string::npos
                                  ? sql_quoted(text)
                                  : "convert_from('\\x" + hex_of(text) + "'::bytea, 'UTF8')";
                   },
                   [](const sql_bytes& each) { return "'\\x" + hex_of(each.value) + "'::bytea"; },
                   [](const sql_json& each) { return sql_quoted(each.document) + "::jsonb"; },
                   [](message_id id) { return sql_quoted(to_string(id)) + "::uuid"; },
                   [](const sql_raw& each) { return each.literal; }},
        value);
}

/// The first column of the first row, or nothing without a row.
std::optional<std::string> first_value(PGconn* db, const std::string& sql)
{
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(db, sql.c_str()), &PQclear);
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        const char* words = PQresultErrorField(result.get(), PG_DIAG_MESSAGE_PRIMARY);
        throw std::runtime_error(words == nullptr ? PQerrorMessage(db) : words);
    }
    if (PQntuples(result.get()) == 0)
        return std::nullopt;
    return PQgetvalue(result.get(), 0, 0);
}

// A connection to the server, before anything of a test.
class libpq {
public:
    explicit libpq(const std::string& url) : handle_(PQconnectdb(url.c_str()))
    {
        if (PQstatus(handle_) != CONNECTION_OK) {
            const std::string why = PQerrorMessage(handle_);
            PQfinish(handle_);
            throw std::runtime_error("no connection to PostgreSQL: " + why);
        }
        PQsetNoticeProcessor(
            handle_, [](void*, const char*) {}, nullptr);
    }
    libpq(const libpq&) = delete;
    libpq& operator=(const libpq&) = delete;
    ~libpq() { PQfinish(handle_); }

    std::optional<std::string> run(const std::string& sql) { return first_value(handle_, sql); }

    [[nodiscard]] PGconn* handle() const { return handle_; }

private:
    PGconn* handle_;
};

class postgres_connection final : public native_connection {
public:
    postgres_connection(std::string schema, const environment& world)
        : schema_(std::move(schema)), db_(server_url(postgres_variable))
    {
        // The application's tables are not beside Posthorn's, and its path does not lead there.
        execute("SET search_path TO " + schema_ + "_app");
        loan_.emplace(db_.handle(),
                      postgres::borrow_options{.schema = schema_, .environment = world});
    }

    void begin() override { execute("BEGIN"); }
    void commit() override { execute("COMMIT"); }
    void rollback() override { execute("ROLLBACK"); }
    bool in_transaction() const override
    {
        const auto status = PQtransactionStatus(db_.handle());
        return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
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

    void attempt(const std::function<void()>& action) override
    {
        if (!in_transaction())
            return action();
        execute("SAVEPOINT before_attempt");
        try {
            action();
        } catch (const std::exception&) {
            execute("ROLLBACK TO SAVEPOINT before_attempt");
            throw;
        }
        execute("RELEASE SAVEPOINT before_attempt");
    }

    message_id send(const sql_message& message) override
    {
        std::string arguments;
        for (const auto& [name, value] : message)
            arguments += (arguments.empty() ? "" : ", ") + name + " => " + postgres_literal(value);
        return message_id::parse(text("SELECT " + schema_ + ".enqueue(" + arguments + ")")).value();
    }

    std::int64_t rows() override
    {
        return count("SELECT (SELECT count(*) FROM " + schema_ +
                     ".message) + (SELECT count(*) FROM " + schema_ + ".dedup)");
    }

    timestamp now() override
    {
        return timestamp{std::chrono::microseconds{
            count("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")}};
    }

    transaction& borrow() override { return *loan_; }

private:
    std::string schema_;
    libpq db_;
    std::optional<postgres::borrowed_transaction> loan_; // gone before its connection
};

class postgres_schema final : public store_under_test {
public:
    postgres_schema()
    {
        libpq(server_url(postgres_variable)).run("CREATE SCHEMA " + schema_ + "_app");
        postgres::migrate(url());
    }
    postgres_schema(const postgres_schema&) = delete;
    postgres_schema& operator=(const postgres_schema&) = delete;
    ~postgres_schema() override
    {
        try {
            libpq db(server_url(postgres_variable));
            db.run("SET lock_timeout TO '10s'");
            db.run("DROP SCHEMA IF EXISTS " + schema_ + ", " + schema_ + "_app CASCADE");
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the schema " << schema_ << " stays behind: " << failure.what();
        }
    }

    std::string url() const override
    {
        return server_url(postgres_variable) + "?schema=" + schema_;
    }
    store open(const store_options& options) override { return postgres::open(url(), options); }
    store open_impatient(const store_options& options) override
    {
        return postgres::open(url() + "&lock_timeout=20ms", options);
    }
    std::unique_ptr<native_connection> connect(const environment& world) override
    {
        return std::make_unique<postgres_connection>(schema_, world);
    }
    std::string table_of_application() const override { return schema_ + "_app.business"; }
    std::optional<std::string> run_in(transaction& tx, const std::string& sql) override
    {
        return first_value(postgres::native_handle(tx), sql);
    }

private:
    std::string schema_ = unused_name();
};

} // namespace

std::unique_ptr<store_under_test> make_postgres()
{
    return std::make_unique<postgres_schema>();
}

} // namespace posthorn::conformance
