// A plain table and the usual SKIP LOCKED queue on MariaDB, as people write them.
#include "bench/mariadb_bench.hpp"

#include "bench/workload.hpp"

#include <fmt/format.h>
#include <mysql.h>

#include <algorithm>
#include <memory>
#include <regex>
#include <stdexcept>
#include <vector>

namespace bench {
namespace {

class client {
public:
    explicit client(const std::string& url)
    {
        std::smatch part;
        if (!std::regex_match(url, part, std::regex("mariadb://([^:@/]+)@([^:/]+):([0-9]+)/?")))
            throw std::runtime_error("'" + url + "' is not mariadb://USER@HOST:PORT/");
        if (mysql_real_connect(db_.get(), part.str(2).c_str(), part.str(1).c_str(), nullptr,
                               nullptr, static_cast<unsigned>(std::stoul(part.str(3))), nullptr,
                               0) == nullptr)
            throw std::runtime_error(mysql_error(db_.get()));
        run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    }

    using rows = std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)>;

    rows run(const std::string& sql)
    {
        if (mysql_real_query(db_.get(), sql.data(), sql.size()) != 0)
            throw std::runtime_error(mysql_error(db_.get()));
        return {mysql_store_result(db_.get()), &mysql_free_result};
    }

    std::string quoted(const std::string& text)
    {
        std::string escaped(2 * text.size() + 1, '\0');
        escaped.resize(
            mysql_real_escape_string(db_.get(), escaped.data(), text.data(), text.size()));
        return "'" + escaped + "'";
    }

private:
    std::unique_ptr<MYSQL, void (*)(MYSQL*)> db_{mysql_init(nullptr), &mysql_close};
};

class mariadb_by_hand final : public hand_written {
public:
    explicit mariadb_by_hand(const std::string& url) : db_(url)
    {
        db_.run("DROP DATABASE IF EXISTS by_hand");
        db_.run("CREATE DATABASE by_hand");
        db_.run("USE by_hand");
        // The columns of a Posthorn message.
        db_.run("CREATE TABLE plain (seq BIGINT AUTO_INCREMENT PRIMARY KEY, id BINARY(16) NOT NULL,"
                " created_at BIGINT NOT NULL, topic VARBINARY(255) NOT NULL,"
                " ordering_key VARBINARY(255), correlation_id VARBINARY(255),"
                " causation_id VARBINARY(255), headers MEDIUMBLOB, payload LONGBLOB NOT NULL)");
        // The queue that most applications begin with.
        db_.run(
            "CREATE TABLE queue (id BIGINT AUTO_INCREMENT PRIMARY KEY,"
            " topic VARCHAR(255) NOT NULL, payload BLOB NOT NULL,"
            " status TINYINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0,"
            " due_at DATETIME(6) NOT NULL DEFAULT NOW(6),"
            " locked_at DATETIME(6) NOT NULL DEFAULT '1970-01-02',"
            " done_at DATETIME(6) NOT NULL DEFAULT '1970-01-02', KEY queue_due (status, due_at))");
    }

    void plain_insert(std::size_t messages, std::size_t per_transaction) override
    {
        const auto row = fmt::format("(X'018F0000000070008000000000000001', 1800000000000000, "
                                     "{}, {})",
                                     db_.quoted(topic), db_.quoted(payload));
        const auto statement =
            "INSERT INTO plain (id, created_at, topic, payload) VALUES " +
            fmt::format("{}", fmt::join(std::vector(per_transaction, row), ", ")) +
            " RETURNING seq";
        for (std::size_t done = 0; done < messages; done += per_transaction)
            db_.run(statement);
    }

    void fill_queue(std::size_t messages) override
    {
        for (std::size_t done = 0; done < messages; done += 1'000)
            db_.run(fmt::format("INSERT INTO queue (topic, payload) SELECT {}, {} FROM "
                                "seq_1_to_{}",
                                db_.quoted(topic), db_.quoted(payload),
                                std::min<std::size_t>(1'000, messages - done)));
    }

    void claim_and_mark_done(std::size_t messages, std::size_t batch) override
    {
        for (std::size_t done = 0; done < messages;) {
            db_.run("START TRANSACTION");
            const auto claimed =
                db_.run(fmt::format("SELECT id, topic, payload FROM queue WHERE status = 0 AND "
                                    "due_at <= NOW(6) ORDER BY due_at LIMIT {} "
                                    "FOR UPDATE SKIP LOCKED",
                                    batch));
            std::vector<std::string> ids;
            while (auto* const row = mysql_fetch_row(claimed.get()))
                ids.emplace_back(row[0]);
            if (ids.empty())
                throw std::runtime_error("rows are missing");
            const auto list = fmt::format("{}", fmt::join(ids, ","));
            db_.run("UPDATE queue SET status = 1, locked_at = NOW(6), attempts = attempts + 1 "
                    "WHERE id IN (" +
                    list + ")");
            db_.run("COMMIT");
            db_.run("UPDATE queue SET status = 2, done_at = NOW(6) WHERE id IN (" + list + ")");
            done += ids.size();
        }
    }

    void settle_down() override {}

    std::optional<std::int64_t> log_bytes() override
    {
        const auto found = db_.run("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'");
        auto* const row = mysql_fetch_row(found.get());
        return row == nullptr ? std::nullopt : std::optional<std::int64_t>{std::stoll(row[1])};
    }

private:
    client db_;
};

} // namespace

void run_mariadb(const std::string& url, const server_plan& plan, figures& into)
{
    const server_under_bench which{
        .name = "mariadb",
        .other_side = [&] { return std::make_unique<mariadb_by_hand>(url); },
        .fresh_url =
            [&](const std::string& name) {
                client db(url);
                db.run("DROP DATABASE IF EXISTS " + name);
                db.run("CREATE DATABASE " + name);
                return url + (url.ends_with('/') ? "" : "/") + name;
            }};
    run_server(which, plan, into);
    into.expect("mariadb drain 100k", "posthorn", 1.5, "mariadb drain 100k", "hand-written");
}

} // namespace bench
