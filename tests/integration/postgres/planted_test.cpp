// Operators and functions that another role has planted in the schema public, each of them a better
// fit for some expression than the server's own: none of Posthorn's SQL calls one, wherever the
// path of the session leads.
#include "conformance/conformance_test.hpp"
#include "conformance/server_under_test.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/pauses.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <map>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

// For each pair of these types, each operator that the server does not have for exactly this pair;
// and functions that fit texts and numbers where the server's own fit something more general.
constexpr const char* plants = R"sql(
SET search_path = pg_catalog;
CREATE SEQUENCE public.calls;
GRANT ALL ON SEQUENCE public.calls TO PUBLIC;
DO $do$
DECLARE
    types text[] := ARRAY['smallint', 'integer', 'bigint', 'numeric', 'double precision', 'text',
                          'name', 'varchar', 'uuid', 'bytea', 'boolean', 'json', 'jsonb', 'oid',
                          'regclass', 'xid', 'xid8', 'timestamptz', 'interval', 'bigint[]',
                          'text[]'];
    yes text[] := ARRAY['=', '<>', '<', '<=', '>', '>=', '~', '~~', '~~*'];
    body text := $$ LANGUAGE plpgsql AS
                    'BEGIN PERFORM pg_catalog.nextval(''public.calls''); RETURN NULL; END' $$;
    l text; r text; op text; f text;
BEGIN
    FOREACH l IN ARRAY types LOOP FOREACH r IN ARRAY types LOOP
        EXECUTE format('CREATE FUNCTION public.planted_yes(%s, %s) RETURNS boolean %s', l, r, body);
        EXECUTE format('CREATE FUNCTION public.planted(%1$s, %2$s) RETURNS %1$s %3$s', l, r, body);
        FOREACH op IN ARRAY yes || ARRAY['+', '-', '*', '/', '||', '<<', '|', '#>>'] LOOP
            IF NOT EXISTS (SELECT FROM pg_operator
                            WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprname = op
                              AND oprleft = l::regtype AND oprright = r::regtype) THEN
                EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, '
                               'FUNCTION = public.%s)', op, l, r,
                               CASE WHEN op = ANY (yes) THEN 'planted_yes' ELSE 'planted' END);
            END IF;
        END LOOP;
    END LOOP; END LOOP;
    FOREACH f IN ARRAY ARRAY[
        'convert_to(text, text) RETURNS bytea', 'nextval(text) RETURNS bigint',
        'lpad(text, bigint, text) RETURNS text', 'to_hex(smallint) RETURNS text',
        'right(text, bigint) RETURNS text', 'left(text, bigint) RETURNS text',
        'set_config(text, text, text) RETURNS text', 'hashtext(varchar) RETURNS integer',
        'starts_with(varchar, varchar) RETURNS boolean', 'cardinality(bigint[]) RETURNS integer',
        'array_append(bigint[], bigint) RETURNS bigint[]', 'octet_length(varchar) RETURNS integer',
        'unnest(bigint[]) RETURNS SETOF bigint', 'unnest(text[]) RETURNS SETOF text',
        'generate_series(integer, smallint) RETURNS SETOF integer',
        'pg_notify(text, varchar) RETURNS void',
        'pg_try_advisory_lock(integer, smallint) RETURNS boolean',
        'jsonb_typeof(json) RETURNS text', 'format(text, text) RETURNS text'] LOOP
        EXECUTE format($$CREATE FUNCTION public.%s LANGUAGE plpgsql AS
                         'BEGIN PERFORM pg_catalog.nextval(''public.calls''); %s END'$$, f,
                       CASE WHEN f ~ 'SETOF|void' THEN 'RETURN;' ELSE 'RETURN NULL;' END);
    END LOOP;
    FOREACH f IN ARRAY ARRAY['count', 'min', 'max'] LOOP
        EXECUTE format('CREATE AGGREGATE public.%s(bigint) '
                       '(SFUNC = public.planted, STYPE = bigint)', f);
    END LOOP;
END
$do$;
)sql";

class session {
public:
    explicit session(const std::string& url) : db_(PQconnectdb(url.c_str()))
    {
        if (PQstatus(db_) != CONNECTION_OK) {
            const std::string why = PQerrorMessage(db_);
            PQfinish(db_);
            throw std::runtime_error(why);
        }
        PQsetNoticeProcessor(
            db_, [](void*, const char*) {}, nullptr);
    }
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() { PQfinish(db_); }

    /// The rows of the last statement.
    std::vector<std::vector<std::string>> run(const std::string& sql)
    {
        const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(db_, sql.c_str()),
                                                                    &PQclear);
        const auto status = PQresultStatus(result.get());
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            throw std::runtime_error(PQerrorMessage(db_) + sql.substr(0, 400));
        std::vector<std::vector<std::string>> all;
        for (int row = 0; row < PQntuples(result.get()); ++row) {
            all.emplace_back();
            for (int column = 0; column < PQnfields(result.get()); ++column)
                all.back().emplace_back(PQgetvalue(result.get(), row, column));
        }
        return all;
    }

    [[nodiscard]] PGconn* handle() const { return db_; }

private:
    PGconn* db_;
};

/// A database where a role of no importance may create objects in the schema public.
class postgres_planted : public ::testing::Test {
protected:
    postgres_planted()
    {
        server_.run("CREATE DATABASE " + name_);
        server_.run("CREATE ROLE " + name_ + " LOGIN");
        session owner(url("postgres"));
        owner.run("GRANT CREATE, USAGE ON SCHEMA public TO " + name_);
        owner.run("CREATE TABLE public.orders (id integer)");
    }
    ~postgres_planted() override
    {
        try {
            server_.run("DROP DATABASE " + name_ + " WITH (FORCE)");
            server_.run("DROP ROLE " + name_);
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the database " << name_ << " stays behind: " << failure.what();
        }
    }

    [[nodiscard]] std::string url(const std::string& user) const
    {
        auto result = conformance::server_url("POSTHORN_TEST_POSTGRESQL");
        result.replace(result.rfind('/') + 1, std::string::npos, name_);
        const auto begin = result.find("//") + 2;
        return result.replace(begin, result.find('@') - begin, user);
    }

    void plant() { session(url(name_)).run(plants); }

    void expect_uncalled(const std::string& after)
    {
        EXPECT_EQ(session(url("postgres")).run("SELECT is_called FROM public.calls")[0][0], "f")
            << after;
    }

    void send_all_kinds(posthorn::transaction& tx)
    {
        enqueue(tx, {"orders", "plain"});
        enqueue(tx, std::vector<outgoing>(3, {{"orders", "bulk"}}));
        enqueue(tx, {"orders", "key"}, {.ordering_key = "k"});
        enqueue(tx, {"orders", "key"}, {.ordering_key = "k"});
        enqueue(tx, {"orders", "later"}, {.delay = 1h});
        enqueue(tx, {"orders", "once"}, {.dedup_key = "d", .headers = {{"a", "b"}}});
        enqueue(tx, {"orders", "once"}, {.dedup_key = "d"});
        enqueue(tx, {"orders", "fail"}, {.priority = 3});
        const auto join = open_join(tx, {.expected = 2, .deadline = 1h});
        const auto member = enqueue(tx, {"orders", "member"}, {.join = join});
        EXPECT_EQ(cancel(tx, member.id), cancel_answer::cancelled);
    }

    void work(posthorn::store& on)
    {
        worker busy(on);
        busy.handle("orders", [](const delivery_view& message) {
            return message.payload() == "fail" ? fail("no") : done();
        });
        (void)busy.run({}, {.until_empty = true});
    }

    std::string name_ = conformance::unused_name();
    session server_{conformance::server_url("POSTHORN_TEST_POSTGRESQL")};
};

} // namespace

// Proves: OPS-02, OUT-20
TEST_F(postgres_planted, code_is_never_run_by_workers_migrations_or_the_sql_contract)
{
    plant();
    const auto plain = url("postgres");
    migrate(plain);
    session(plain).run(postgres::migration_sql(plain + "?schema=printed"));
    expect_uncalled("a migration");
    for (const std::string how : {"?pool=4", "?pooler=transaction"}) {
        auto db = open(plain + how);
        {
            auto tx = db.begin();
            send_all_kinds(tx);
            tx.commit();
        }
        enqueue(db, {"orders", "alone"});
        work(db);
        EXPECT_GE(count_messages(db).dead, 1);
        EXPECT_TRUE(pause(db, "mails.*"));
        EXPECT_TRUE(resume(db, "mails.*"));
        (void)list_messages(db);
        EXPECT_GE(redrive(db, message_filter{}), 1U);
        work(db);
        expect_uncalled("a worker with " + how);
        {
            auto tx = db.begin();
            enqueue(tx, {"orders", ""});
            const std::unique_ptr<PGresult, void (*)(PGresult*)> result(
                PQexec(postgres::native_handle(tx), "INSERT INTO orders VALUES (1)"), &PQclear);
            EXPECT_EQ(PQresultStatus(result.get()), PGRES_COMMAND_OK)
                << "names of the application are found: " << PQresultErrorMessage(result.get());
            send_all_kinds(tx);
            tx.commit();
        }
        work(db);
        expect_uncalled("a transaction with the application's own statements, and " + how);
    }
    for (const auto& each : diagnose(plain))
        EXPECT_TRUE(each.check == "durability" || each.level != severity::problem) << each.detail;
    expect_uncalled("a diagnosis");

    session app(plain);
    app.run("BEGIN");
    postgres::borrowed_transaction lent(app.handle());
    send_all_kinds(lent);
    app.run("COMMIT");
    expect_uncalled("a transaction of the application");
    app.run("SELECT posthorn.enqueue('a'), posthorn.enqueue('b', '{\"a\": 1}'), "
            "posthorn.enqueue('c', '{}'::jsonb, headers => '{\"a\": \"b\"}', dedup_key => 'd'), "
            "posthorn.enqueue('d', '\\x00'::bytea, ordering_key => 'k', delay_ms => 5, "
            "expires_after_ms => 10, id => gen_random_uuid())");
    expect_uncalled("the SQL contract");
}

// The server writes down which operators and functions it has chosen for a function whose body it
// has read when it was made.
// Proves: OPS-02
TEST_F(postgres_planted, code_is_chosen_in_no_statement_and_no_function)
{
    plant();
    migrate(url("postgres"));
    session db(url("postgres"));
    if (std::stoi(db.run("SHOW server_version_num")[0][0]) < 140000)
        GTEST_SKIP() << "PostgreSQL 13 reads the bodies of functions only when they are called";
    db.run("CREATE SCHEMA probe; SET search_path = public");
    std::map<std::string, std::string> texts;
    for (const auto& each : postgres::sql::all)
        if (std::regex_search(each.text.begin(), each.text.end(),
                              std::regex("^(SELECT|INSERT|UPDATE|DELETE|WITH|\\()")))
            texts.emplace(each.name, contract::with_prefix(each.text, "posthorn."));
    EXPECT_GT(texts.size(), 150U);
    const std::regex parameter(R"(\$(\d+)::([a-z]+(?:\[\])?))");
    for (const auto& [name, text] : texts) {
        std::map<int, std::string> types;
        for (std::sregex_iterator at(text.begin(), text.end(), parameter), end; at != end; ++at)
            types.emplace(std::stoi((*at)[1]), (*at)[2]);
        std::string list;
        for (const auto& [number, type] : types)
            list += (list.empty() ? "" : ", ") + type;
        db.run(fmt::format("CREATE FUNCTION probe.{}({}) RETURNS void BEGIN ATOMIC {}; END", name,
                           list, text));
    }
    // Functions with a path of their own are read with it.
    const auto functions =
        db.run("SET search_path = pg_catalog; "
               "SELECT proname || '_' || oid, pg_get_function_arguments(oid), prosrc FROM pg_proc "
               "WHERE pronamespace = 'posthorn'::regnamespace AND proconfig IS NULL");
    db.run("SET search_path = public");
    for (const auto& row : functions)
        db.run(fmt::format("CREATE FUNCTION probe.{}({}) RETURNS void BEGIN ATOMIC {}; END", row[0],
                           row[1], row[2]));
    db.run("CREATE FUNCTION probe.control() RETURNS void BEGIN ATOMIC SELECT 1.5 * 2; END");
    bool noticed = false;
    for (const auto& row : db.run(
             "SET search_path = pg_catalog; "
             "SELECT p.proname, pg_describe_object(d.refclassid, d.refobjid, 0) "
             "FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid "
             "WHERE d.classid = 'pg_proc'::regclass "
             "AND p.pronamespace = 'probe'::regnamespace AND d.refobjid IN "
             "(SELECT oid FROM pg_operator WHERE oprnamespace = 'public'::regnamespace UNION ALL "
             "SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace)"))
        if (row[0] == "control")
            noticed = true;
        else
            ADD_FAILURE() << row[0] << " uses " << row[1];
    EXPECT_TRUE(noticed) << "the control is not found: this test looks in the wrong place";
}

// Proves: OPS-02
TEST_F(postgres_planted, nothing_of_posthorns_may_be_called_by_everybody)
{
    migrate(url("postgres"));
    session(url("postgres")).run("GRANT USAGE ON SCHEMA posthorn TO " + name_);
    EXPECT_EQ(session(url(name_))
                  .run("SELECT count(*) FROM pg_proc WHERE pronamespace = "
                       "'posthorn'::regnamespace AND has_function_privilege(oid, "
                       "'EXECUTE')")[0][0],
              "0");
}

} // namespace posthorn::test
