// PostgreSQL's side of the suite, written with libpq alone.
#include "conformance/postgres_under_test.hpp"

#include "conformance/server_under_test.hpp"
#include "conformance/spares.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/postgres.hpp>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

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

// Connections are called like their schema: so they are found, also after their clients have gone.
std::string url_for(const std::string& schema)
{
    return server_url(postgres_variable) + "?application_name=" + schema;
}

class postgres_connection final : public native_connection {
public:
    postgres_connection(std::string schema, const environment& world)
        : schema_(std::move(schema)), db_(url_for(schema_))
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

// A schema with Posthorn's tables, and one beside it for the application's. To make one takes
// longer than most tests do, so it can be made as good as new.
class renewable_schema {
public:
    renewable_schema()
    {
        db_.run("CREATE SCHEMA " + name_ + "_app");
        postgres::migrate(server_url(postgres_variable) + "?schema=" + name_);
        db_.run("SET lock_timeout TO '10s'");
        fresh_ = catalog();
        // Some tables have rows from the beginning.
        db_.run(for_tables("CREATE TEMP TABLE fresh_%2$s AS TABLE %1$s"));
        renewal_ = for_tables("LOCK TABLE %1$s") + "; " +
                   for_tables("DELETE FROM %1$s; INSERT INTO %1$s OVERRIDING SYSTEM VALUE "
                              "TABLE pg_temp.fresh_%2$s") +
                   "; " + for_sequences();
    }
    renewable_schema(const renewable_schema&) = delete;
    renewable_schema& operator=(const renewable_schema&) = delete;
    ~renewable_schema()
    {
        try {
            db_.run("DROP SCHEMA IF EXISTS " + name_ + ", " + name_ + "_app CASCADE");
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the schema " << name_ << " stays behind: " << failure.what();
        }
    }

    [[nodiscard]] const std::string& name() const { return name_; }

    /// Returns: whether it is as it was when it was made. Not so with connections that somebody may
    /// still use, with other tables, functions or triggers, and with many rows, whose remains would
    /// slow the next test down.
    [[nodiscard]] bool renew()
    {
        if (!is_alone() || catalog() != fresh_ || is_large())
            return false;
        db_.run(renewal_);
        return true;
    }

private:
    // Servers notice a moment later that a client has gone.
    bool is_alone()
    {
        const auto others =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + name_ + "'";
        for (int patience = 100; db_.run(others) != "0"; --patience) {
            if (patience == 0)
                return false;
            environment::system().clock->pause(std::chrono::milliseconds{5});
        }
        return true;
    }

    // What there is, and which transaction made it so.
    std::string catalog()
    {
        return db_
            .run("WITH here AS (SELECT oid, xmin FROM pg_namespace"
                 "  WHERE nspname IN ('" +
                 name_ + "', '" + name_ +
                 "_app')),"
                 " relations AS (SELECT oid, xmin FROM pg_class"
                 "  WHERE relnamespace IN (SELECT oid FROM here)),"
                 " everything AS (SELECT * FROM here UNION ALL SELECT * FROM relations"
                 "  UNION ALL SELECT oid, xmin FROM pg_proc"
                 "   WHERE pronamespace IN (SELECT oid FROM here)"
                 "  UNION ALL SELECT oid, xmin FROM pg_trigger"
                 "   WHERE tgrelid IN (SELECT oid FROM relations)"
                 "  UNION ALL SELECT attrelid, xmin FROM pg_attribute"
                 "   WHERE attnum > 0 AND attrelid IN (SELECT oid FROM relations)"
                 "  UNION ALL SELECT seqrelid, xmin FROM pg_sequence"
                 "   WHERE seqrelid IN (SELECT oid FROM relations))"
                 " SELECT md5(string_agg(oid || ' ' || xmin, ', ' ORDER BY oid, xmin::text))"
                 "  FROM everything")
            .value();
    }

    bool is_large()
    {
        return db_.run("SELECT max(pg_relation_size(oid)) > 200000 FROM pg_class WHERE " +
                       mine()) != "f";
    }

    // Statements for each table, and for each sequence as it stands now.
    std::string for_tables(const std::string& statement)
    {
        return db_
            .run("SELECT string_agg(format('" + statement +
                 "', oid::regclass, relname), '; ') FROM pg_class WHERE relkind = 'r' AND " +
                 mine())
            .value();
    }
    std::string for_sequences()
    {
        return db_
            .run("SELECT string_agg(format('SELECT setval(%L, %s, %L)', "
                 "format('%I.%I', schemaname, sequencename), coalesce(last_value, start_value), "
                 "last_value IS NOT NULL), '; ') FROM pg_sequences WHERE schemaname = '" +
                 name_ + "'")
            .value();
    }

    std::string mine() const { return "relnamespace = '" + name_ + "'::regnamespace"; }

    std::string name_ = unused_name();
    libpq db_{server_url(postgres_variable)};
    std::string fresh_;
    std::string renewal_;
};

class postgres_schema final : public store_under_test {
public:
    postgres_schema() = default;
    postgres_schema(const postgres_schema&) = delete;
    postgres_schema& operator=(const postgres_schema&) = delete;
    ~postgres_schema() override
    {
        if (is_known_)
            return;
        const auto name = schema_->name();
        try {
            spares<renewable_schema>::give_back(std::move(schema_));
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the schema " << name
                          << " does not become new again: " << failure.what();
        }
    }

    std::string url() const override
    {
        is_known_ = true; // who knows the way may come later, too
        return server_url(postgres_variable) + "?schema=" + schema_->name();
    }
    store open(const store_options& options) override { return postgres::open(own_url(), options); }
    store open_impatient(const store_options& options) override
    {
        return postgres::open(own_url() + "&lock_timeout=20ms", options);
    }
    std::unique_ptr<native_connection> connect(const environment& world) override
    {
        return std::make_unique<postgres_connection>(schema_->name(), world);
    }
    std::string table_of_application() const override { return schema_->name() + "_app.business"; }
    std::string table_of_messages() const override { return schema_->name() + ".message"; }
    std::optional<std::string> run_in(transaction& tx, const std::string& sql) override
    {
        return first_value(postgres::native_handle(tx), sql);
    }

private:
    std::string own_url() const { return url_for(schema_->name()) + "&schema=" + schema_->name(); }

    std::unique_ptr<renewable_schema> schema_ = spares<renewable_schema>::take();
    mutable bool is_known_ = false;
};

} // namespace

std::unique_ptr<store_under_test> make_postgres()
{
    return std::make_unique<postgres_schema>();
}

} // namespace posthorn::conformance
