// What can go wrong before there is a connection, or with the database behind it: each says what to
// do, soon, and none of them a password.
#include "gate/tcp_gate.hpp"
#include "integration/postgres/private_server.hpp"
#include "integration/postgres/server_fixture.hpp"
#include "store/postgres/location.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using conformance::thrown_by;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string secret = "s3cr3t";

class postgres_connecting : public server_fixture {
protected:
    /// Neither in doubt, nor indiscreet.
    static void expect_refused(const std::string& url, error_code code, retry again,
                               const std::string& words)
    {
        const auto failure = thrown_by([&] { (void)posthorn::open(url); });
        EXPECT_EQ(failure.code(), code) << failure.what();
        EXPECT_EQ(failure.retryable(), again == retry::helps) << failure.what();
        EXPECT_FALSE(failure.in_doubt());
        EXPECT_THAT(failure.what(), HasSubstr(words));
        EXPECT_THAT(failure.what(), Not(HasSubstr(secret)));
    }

    void expect_bad_url(const std::string& parameters, const std::string& words)
    {
        expect_refused(under_test_->url() + parameters, error_code::invalid_argument,
                       retry::is_useless, words);
    }

    void expect_bad_schema(error_code code, const std::string& words)
    {
        expect_refused(under_test_->url(), code, retry::is_useless, words);
    }
};

// Writes the file as the server's own user would: in its place, so that its owner stays.
void prepend(const std::filesystem::path& file, const std::string& line)
{
    std::stringstream old;
    old << std::ifstream(file).rdbuf();
    std::ofstream(file) << line << "\n" << old.str();
}

std::filesystem::path data_of(const private_server& server)
{
    auto home = server.folder().read("postgres.home");
    return std::filesystem::path(home.substr(0, home.find('\n'))) / "data";
}

} // namespace

TEST_F(postgres_connecting, a_database_that_does_not_exist_is_not_found)
{
    auto url = under_test_->url();
    url.replace(url.find("/postgres?"), 10, "/nowhere?");
    expect_refused(url, error_code::not_found, retry::is_useless, "nowhere");
}

TEST_F(postgres_connecting, a_role_that_does_not_exist_is_unavailable_for_good)
{
    expect_refused(url_as("nobody:" + secret), error_code::unavailable, retry::is_useless,
                   "nobody");
}

TEST_F(postgres_connecting, a_server_that_is_not_there_is_told_at_once)
{
    const auto url = under_test_->url();
    tcp_gate gate("127.0.0.1", 1);
    gate.refuse(true);
    expect_refused("postgresql://postgres:" + secret + "@127.0.0.1:" + std::to_string(gate.port()) +
                       "/postgres",
                   error_code::unavailable, retry::helps, "is the server running");
}

TEST_F(postgres_connecting, a_wrong_password_is_unavailable_for_good_and_stays_secret)
{
    private_server server("-c fsync=off");
    postgres::migrate(server.url());
    prepend(data_of(server) / "pg_hba.conf", "host all all 127.0.0.1/32 scram-sha-256");
    server.kill();
    server.start();
    expect_refused(server.url("postgres:" + secret), error_code::unavailable, retry::is_useless,
                   "check user, password");
    expect_refused(server.url("postgres"), error_code::unavailable, retry::is_useless,
                   "check user, password");
}

TEST_F(postgres_connecting, too_many_connections_are_unavailable_until_there_are_fewer)
{
    const scratch_role role(*admin_, "CONNECTION LIMIT 1");
    const auto& name = role.name();
    for (const std::string what : {"TABLES", "SEQUENCES", "FUNCTIONS"})
        admin_->execute("GRANT ALL ON ALL " + what + " IN SCHEMA " + schema_ + " TO " + name);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + name);
    // Its pauses before the next try take no time.
    const environment quick{
        .clock = std::make_shared<testing::manual_clock>(), .random = system_.random, .log = {}};
    auto ours = posthorn::open(url_as(name), {.environment = quick});
    auto tx = ours.begin();
    enqueue(tx, {"orders", "x"});
    const auto failure = thrown_by([&] { enqueue(ours, {"orders", "y"}); });
    EXPECT_EQ(failure.code(), error_code::unavailable) << failure.what();
    EXPECT_TRUE(failure.retryable()) << failure.what();
    EXPECT_FALSE(failure.in_doubt());
    EXPECT_THAT(failure.what(), HasSubstr("too many connections"));
    tx.commit();
    {
        const auto gone = std::move(tx);
    }
    EXPECT_NO_THROW(enqueue(ours, {"orders", "y"}));
}

TEST_F(postgres_connecting, parameters_that_nobody_knows_are_refused_before_anything_is_tried)
{
    expect_bad_url("&colour=blue", "unknown parameter 'colour'");
    expect_bad_url("&pool=0", "pool");
    expect_bad_url("&pool=many", "many");
    expect_bad_url("&pooler=session", "none or transaction");
    expect_bad_url("&lock_timeout=soon", "soon");
    expect_bad_url("&statement_timeout=-1s", "-1s");
    expect_bad_url("&pool", "name=value");
}

TEST_F(postgres_connecting, waits_for_five_seconds_unless_the_url_or_the_environment_says_otherwise)
{
    const auto timeout_of = [](const std::string& parameters) {
        const auto info = postgres::location::parse("postgresql://host/db" + parameters).conninfo;
        const auto found = info.find("connect_timeout=");
        return found == std::string::npos ? "libpq's" : info.substr(found);
    };
    const char* of_tests = std::getenv("PGCONNECT_TIMEOUT");
    const std::string before = of_tests == nullptr ? "" : of_tests;
    ::setenv("PGCONNECT_TIMEOUT", "7", 1);
    EXPECT_EQ(timeout_of(""), "libpq's");
    EXPECT_EQ(timeout_of("?connect_timeout=9"), "connect_timeout=9");
    ::unsetenv("PGCONNECT_TIMEOUT");
    EXPECT_EQ(timeout_of(""), "connect_timeout=5");
    EXPECT_EQ(timeout_of("?connect_timeout=9"), "connect_timeout=9");
    EXPECT_EQ(timeout_of("?service=shop"), "libpq's") << "its file may say so";
    if (of_tests != nullptr)
        ::setenv("PGCONNECT_TIMEOUT", before.c_str(), 1);
}

TEST_F(postgres_connecting, a_schema_that_is_no_name_is_refused)
{
    const auto url = conformance::server_url("POSTHORN_TEST_POSTGRESQL");
    for (const std::string name : {"a;b", "a b", "", "\"a\"", "a'b"})
        expect_refused(url + "?schema=" + name, error_code::invalid_argument, retry::is_useless,
                       "schema");
}

TEST_F(postgres_connecting, a_url_that_cannot_be_read_keeps_its_password)
{
    expect_refused("postgresql://postgres:" + secret + "%zz@127.0.0.1/postgres",
                   error_code::invalid_argument, retry::is_useless, "percent-encode");
    expect_bad_url("&password=" + secret + "%zz", "percent-encode");
}

// Proves: OPS-02, F22
TEST_F(postgres_connecting, a_schema_without_tables_is_missing_and_nothing_is_created)
{
    admin_->execute("DROP SCHEMA " + schema_ + " CASCADE");
    expect_bad_schema(error_code::schema_missing, "posthorn init");
    admin_->execute("CREATE SCHEMA " + schema_);
    expect_bad_schema(error_code::schema_missing, "posthorn init");
    EXPECT_EQ(admin_->count("SELECT count(*) FROM pg_tables WHERE schemaname = '" + schema_ + "'"),
              0);
}

// Proves: OPS-02, F22
TEST_F(postgres_connecting, tables_of_a_newer_posthorn_are_refused)
{
    admin_->execute("INSERT INTO " + schema_ + ".schema VALUES (999, 'later', 0)");
    expect_bad_schema(error_code::schema_newer, "999");
    EXPECT_EQ(thrown_by([&] { migrate(under_test_->url()); }).code(), error_code::schema_newer);
}

// Proves: OPS-02, F22
TEST_F(postgres_connecting, tables_that_are_not_posthorns_are_refused_and_left_alone)
{
    admin_->execute("DROP SCHEMA " + schema_ + " CASCADE; CREATE SCHEMA " + schema_ +
                    "; CREATE TABLE " + schema_ + ".message (body text)");
    expect_bad_schema(error_code::schema_foreign, "?schema=");
    EXPECT_EQ(thrown_by([&] { migrate(under_test_->url()); }).code(), error_code::schema_foreign);
    admin_->execute("CREATE TABLE " + schema_ + ".schema (id integer)");
    expect_bad_schema(error_code::schema_foreign, "?schema=");
    EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".message"), 0);
}

// Proves: F3
TEST_F(postgres_connecting, a_standby_is_read_only_until_it_is_promoted)
{
    private_server server("-c fsync=off");
    postgres::migrate(server.url());
    const auto signal = data_of(server) / "standby.signal";
    std::filesystem::copy_file(data_of(server) / "PG_VERSION", signal);
    std::filesystem::permissions(signal, std::filesystem::perms::all);
    server.kill();
    server.start();

    auto ours = posthorn::open(server.url());
    EXPECT_EQ(count_messages(ours).ready, 0);
    const owner alice{.token = "token of alice", .worker = "alice"};
    expect(thrown_by([&] {
               enqueue(ours, {"orders", "x"});
           }),
           error_code::read_only, retry::is_useless, "insert_one_plain");
    {
        auto tx = ours.begin();
        expect(thrown_by([&] {
                   enqueue(tx, {"orders", "x"});
               }),
               error_code::read_only, retry::is_useless, "insert_one_plain");
    }
    expect(thrown_by([&] { (void)outbox(ours).claim(alice); }), error_code::read_only,
           retry::is_useless, "know_worker");

    ASSERT_EQ(std::system(
                  ("psql -qtAX -c 'SELECT pg_promote()' " + server.url() + " > /dev/null").c_str()),
              0);
    const auto id = enqueue(ours, {"orders", "x"}).id;
    EXPECT_EQ(outbox(ours).claim(alice).receipts().at(0).id, id);
}

} // namespace posthorn::test
