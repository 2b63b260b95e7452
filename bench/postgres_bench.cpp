// A plain table and the usual SKIP LOCKED queue on PostgreSQL, as fast as libpq lets them be.
#include "bench/postgres_bench.hpp"

#include "bench/postgres_bell_bench.hpp"
#include "bench/workload.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <stdexcept>
#include <vector>

namespace bench {
namespace {

using result = std::unique_ptr<PGresult, void (*)(PGresult*)>;

class postgres_by_hand final : public hand_written {
public:
    explicit postgres_by_hand(const std::string& url) : db_(PQconnectdb(url.c_str()))
    {
        if (PQstatus(db_) != CONNECTION_OK)
            throw std::runtime_error(PQerrorMessage(db_));
        run("SET client_min_messages = warning");
        run("DROP SCHEMA IF EXISTS by_hand CASCADE; CREATE SCHEMA by_hand;"
            // The columns of a Posthorn message.
            "CREATE TABLE by_hand.plain ("
            "  seq bigserial PRIMARY KEY, created_at bigint NOT NULL, due_at bigint NOT NULL,"
            "  finished_at bigint NOT NULL DEFAULT 0, state smallint NOT NULL DEFAULT 0,"
            "  place smallint NOT NULL DEFAULT 0, attempts integer NOT NULL DEFAULT 0,"
            "  fence bigint NOT NULL DEFAULT 0, started_at bigint NOT NULL DEFAULT 0,"
            "  worker integer NOT NULL DEFAULT 0, errors integer NOT NULL DEFAULT 0,"
            "  failed_at bigint NOT NULL DEFAULT 0, expires_at bigint NOT NULL DEFAULT 0,"
            "  redrives integer NOT NULL DEFAULT 0, priority smallint NOT NULL DEFAULT 0,"
            "  own_id boolean NOT NULL DEFAULT false, id uuid NOT NULL, topic text NOT NULL,"
            "  ordering_key text NOT NULL DEFAULT '', correlation_id text NOT NULL DEFAULT '',"
            "  causation_id text NOT NULL DEFAULT '', headers text NOT NULL DEFAULT '',"
            "  last_error text NOT NULL DEFAULT '', payload bytea NOT NULL);"
            // The queue that most applications begin with.
            "CREATE TABLE by_hand.queue ("
            "  id bigserial PRIMARY KEY, topic text NOT NULL, payload bytea NOT NULL,"
            "  status text NOT NULL DEFAULT 'pending', attempts integer NOT NULL DEFAULT 0,"
            "  locked_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),"
            "  done_at timestamptz);"
            "CREATE INDEX queue_pending ON by_hand.queue (id) WHERE status = 'pending'");
        prepare("plain_one",
                "INSERT INTO by_hand.plain (created_at, due_at, id, topic, correlation_id, "
                "causation_id, headers, payload) VALUES ($1, $1, $2, $3, '', '', '', $4) "
                "RETURNING seq");
        prepare("plain_many", "INSERT INTO by_hand.plain (created_at, due_at, id, topic, payload) "
                              "SELECT $1::bigint, $1::bigint, i, t, p "
                              "FROM unnest($2::uuid[], $3::text[], $4::bytea[]) AS u (i, t, p) "
                              "RETURNING seq");
        prepare("fill", "INSERT INTO by_hand.queue (topic, payload) SELECT $1, $2::bytea "
                        "FROM generate_series(1, $3::integer)");
        prepare("claim", "UPDATE by_hand.queue SET status = 'busy', locked_at = now(), "
                         "attempts = attempts + 1 WHERE id IN (SELECT id FROM by_hand.queue "
                         "WHERE status = 'pending' ORDER BY id LIMIT $1::integer "
                         "FOR UPDATE SKIP LOCKED) RETURNING id, topic, payload");
        prepare("done", "UPDATE by_hand.queue SET status = 'done', done_at = now() "
                        "WHERE id = ANY ($1::bigint[])");
    }
    postgres_by_hand(const postgres_by_hand&) = delete;
    postgres_by_hand& operator=(const postgres_by_hand&) = delete;
    ~postgres_by_hand() override
    {
        PQclear(PQexec(db_, "DROP SCHEMA by_hand CASCADE"));
        PQfinish(db_);
    }

    void plain_insert(std::size_t messages, std::size_t per_transaction) override
    {
        const std::string id = "018f0000-0000-7000-8000-000000000001";
        const std::string now = "1800000000000000";
        if (per_transaction == 1) {
            for (std::size_t i = 0; i < messages; ++i)
                execute("plain_one", {now, id, topic, payload});
            return;
        }
        for (std::size_t done = 0; done < messages; done += per_transaction)
            execute("plain_many",
                    {now, array_of(id, per_transaction), array_of(topic, per_transaction),
                     array_of(quoted(payload), per_transaction)});
    }

    void fill_queue(std::size_t messages) override
    {
        execute("fill", {topic, payload, std::to_string(messages)});
    }

    void claim_and_mark_done(std::size_t messages, std::size_t batch) override
    {
        for (std::size_t done = 0; done < messages;) {
            const auto claimed = execute("claim", {std::to_string(batch)});
            const int count = PQntuples(claimed.get());
            if (count == 0)
                throw std::runtime_error("rows are missing");
            std::string ids = "{";
            for (int row = 0; row < count; ++row)
                ids += (row == 0 ? "" : ",") + std::string(PQgetvalue(claimed.get(), row, 0));
            execute("done", {ids + "}"});
            done += static_cast<std::size_t>(count);
        }
    }

    void settle_down() override { run("VACUUM ANALYZE"); }

    std::optional<std::int64_t> log_bytes() override
    {
        const auto found =
            check(PQexec(db_, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"));
        return std::stoll(PQgetvalue(found.get(), 0, 0));
    }

private:
    // Text arrays: the payload has quotes and backslashes of its own.
    static std::string quoted(const std::string& text)
    {
        std::string out = "\"";
        for (const char each : text) {
            if (each == '"' || each == '\\')
                out += '\\';
            out += each;
        }
        return out + "\"";
    }

    static std::string array_of(const std::string& element, std::size_t count)
    {
        std::string out = "{";
        for (std::size_t i = 0; i < count; ++i)
            out += (i == 0 ? "" : ",") + element;
        return out + "}";
    }

    result check(PGresult* raw)
    {
        result owned(raw, &PQclear);
        const auto status = PQresultStatus(raw);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            throw std::runtime_error(PQerrorMessage(db_));
        return owned;
    }

    void run(const char* sql) { check(PQexec(db_, sql)); }
    void prepare(const char* name, const char* sql)
    {
        check(PQprepare(db_, name, sql, 0, nullptr));
    }

    result execute(const char* name, const std::vector<std::string>& values)
    {
        std::vector<const char*> pointers;
        for (const auto& each : values)
            pointers.push_back(each.c_str());
        return check(PQexecPrepared(db_, name, static_cast<int>(values.size()), pointers.data(),
                                    nullptr, nullptr, 0));
    }

    PGconn* db_;
};

void drop_schema(const std::string& url, const std::string& name)
{
    const std::unique_ptr<PGconn, void (*)(PGconn*)> db(PQconnectdb(url.c_str()), &PQfinish);
    const result dropped(
        PQexec(db.get(),
               ("SET client_min_messages = warning; DROP SCHEMA IF EXISTS " + name + " CASCADE")
                   .c_str()),
        &PQclear);
    if (PQresultStatus(dropped.get()) != PGRES_COMMAND_OK)
        throw std::runtime_error(PQerrorMessage(db.get()));
}

std::string fresh_schema(const std::string& url, const std::string& name)
{
    drop_schema(url, name);
    return url + "?schema=" + name;
}

} // namespace

void run_bell(const std::string& url, const server_plan& plan, figures& into)
{
    run_postgres_bell(
        url, [&] { return fresh_schema(url, "bench"); }, plan, into);
}

void run_postgres(const std::string& url, const server_plan& plan, figures& into)
{
    run_server({.name = "postgres",
                .other_side = [&] { return std::make_unique<postgres_by_hand>(url); },
                .fresh_url = [&](const std::string& name) { return fresh_schema(url, name); }},
               plan, into);
    run_bell(url, plan, into);
    for (const auto* metric :
         {"postgres enqueue 1/tx 1c", "postgres enqueue 100/tx 1c", "postgres enqueue 1000/tx 1c"})
        into.expect(metric, "posthorn", 0.85, metric, "raw");
    into.expect("postgres drain 100k", "posthorn", 1.5, "postgres drain 100k", "hand-written");
    into.expect_at_most("postgres wal drain batch 1000", "posthorn", 250);
}

} // namespace bench
