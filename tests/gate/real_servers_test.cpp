// The gate before real servers: their protocols carry the word COMMIT as it is, and a lost answer
// is what it should be: done by the server, unknown to the client.
#include "gate/tcp_gate.hpp"

#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <mysql.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace posthorn::test {
namespace {

std::uint16_t port_of_server(const char* variable)
{
    const char* port = std::getenv(variable);
    if (port == nullptr)
        throw std::runtime_error(std::string(variable) +
                                 " is not set: run ./dev servers, and then this test with the "
                                 "variables that it prints");
    return static_cast<std::uint16_t>(std::stoi(port));
}

class postgres_client {
public:
    static std::uint16_t server() { return port_of_server("POSTHORN_TEST_POSTGRESQL_PORT"); }

    explicit postgres_client(std::uint16_t port)
        : db_(PQconnectdb(("host=127.0.0.1 user=postgres dbname=postgres sslmode=disable port=" +
                           std::to_string(port))
                              .c_str()),
              &PQfinish)
    {
        if (PQstatus(db_.get()) != CONNECTION_OK)
            throw std::runtime_error(PQerrorMessage(db_.get()));
    }

    std::string run(const std::string& sql)
    {
        const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(db_.get(), sql.c_str()),
                                                                    &PQclear);
        if (PQresultStatus(result.get()) != PGRES_COMMAND_OK &&
            PQresultStatus(result.get()) != PGRES_TUPLES_OK)
            throw std::runtime_error(PQerrorMessage(db_.get()));
        return PQntuples(result.get()) == 0 ? "" : PQgetvalue(result.get(), 0, 0);
    }

private:
    std::unique_ptr<PGconn, void (*)(PGconn*)> db_;
};

class mariadb_client {
public:
    static std::uint16_t server() { return port_of_server("POSTHORN_TEST_MARIADB_PORT"); }

    explicit mariadb_client(std::uint16_t port) : db_(mysql_init(nullptr), &mysql_close)
    {
        if (mysql_real_connect(db_.get(), "127.0.0.1", "root", nullptr, nullptr, port, nullptr,
                               0) == nullptr)
            throw std::runtime_error(mysql_error(db_.get()));
    }

    std::string run(const std::string& sql)
    {
        if (mysql_real_query(db_.get(), sql.data(), sql.size()) != 0)
            throw std::runtime_error(mysql_error(db_.get()));
        const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> result(mysql_store_result(db_.get()),
                                                                      &mysql_free_result);
        auto* const row = result ? mysql_fetch_row(result.get()) : nullptr;
        return row == nullptr ? "" : row[0];
    }

private:
    std::unique_ptr<MYSQL, void (*)(MYSQL*)> db_;
};

template <class Client>
class gate_before : public ::testing::Test {
protected:
    gate_before()
    {
        direct.run("CREATE SCHEMA " + schema);
        direct.run("CREATE TABLE " + table + " (fact integer)");
    }
    ~gate_before() override
    {
        direct.run("DROP TABLE " + table);
        direct.run("DROP SCHEMA " + schema);
    }

    /// Writes a fact in a transaction. Returns: whether the commit was answered.
    bool write_through_gate()
    {
        Client client(gate.port());
        client.run("BEGIN");
        client.run("INSERT INTO " + table + " VALUES (1)");
        try {
            client.run("COMMIT");
            return true;
        } catch (const std::runtime_error&) {
            return false;
        }
    }

    std::string facts() { return direct.run("SELECT count(*) FROM " + table); }

    Client direct{Client::server()};
    tcp_gate gate{"127.0.0.1", Client::server()};
    std::string schema = "gate_" + std::to_string(gate.port());
    std::string table = schema + ".facts";
};

using clients = ::testing::Types<postgres_client, mariadb_client>;
TYPED_TEST_SUITE(gate_before, clients);

TYPED_TEST(gate_before, what_passes_is_committed)
{
    EXPECT_TRUE(this->write_through_gate());
    EXPECT_EQ(this->facts(), "1");
}

TYPED_TEST(gate_before, a_commit_whose_request_is_lost_has_not_happened)
{
    for (const auto how : {tcp_gate::ending::reset, tcp_gate::ending::close}) {
        this->gate.lose_request("COMMIT", how);
        EXPECT_FALSE(this->write_through_gate());
    }
    EXPECT_EQ(this->facts(), "0");
    EXPECT_EQ(this->gate.seen().requests_lost, 2U);
    EXPECT_TRUE(this->write_through_gate());
}

TYPED_TEST(gate_before, a_commit_whose_reply_is_lost_has_happened)
{
    for (const auto how : {tcp_gate::ending::reset, tcp_gate::ending::close}) {
        this->gate.lose_reply("COMMIT", {}, how);
        EXPECT_FALSE(this->write_through_gate());
    }
    EXPECT_EQ(this->facts(), "2");
    EXPECT_EQ(this->gate.seen().replies_lost, 2U);
    EXPECT_TRUE(this->write_through_gate());
}

TYPED_TEST(gate_before, a_connection_that_is_cut_takes_its_transaction_along)
{
    TypeParam client(this->gate.port());
    client.run("BEGIN");
    client.run("INSERT INTO " + this->table + " VALUES (1)");
    this->gate.cut();
    EXPECT_THROW(client.run("COMMIT"), std::runtime_error);
    EXPECT_EQ(this->facts(), "0");
    EXPECT_TRUE(this->write_through_gate());
}

} // namespace
} // namespace posthorn::test
