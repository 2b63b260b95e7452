// The connection under a transaction as libpq sees it, and what the application's own failures on
// it do to the transaction.
#include "integration/postgres/server_fixture.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/messages.hpp>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <memory>
#include <string>

namespace posthorn::test {
namespace {

class postgres_native_handle : public server_fixture {
protected:
    postgres_native_handle() { admin_->execute("CREATE TABLE " + orders_ + " (id integer)"); }

    [[nodiscard]] static bool run(PGconn* db, const std::string& sql)
    {
        const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(db, sql.c_str()),
                                                                    &PQclear);
        return PQresultStatus(result.get()) == PGRES_COMMAND_OK;
    }

    [[nodiscard]] bool insert(PGconn* db)
    {
        return run(db, "INSERT INTO " + orders_ + " VALUES (1)");
    }

    std::int64_t orders() { return admin_->count("SELECT count(*) FROM " + orders_); }

    static void expect_usable(PGconn* db)
    {
        EXPECT_EQ(PQtransactionStatus(db), PQTRANS_INTRANS);
        EXPECT_EQ(PQpipelineStatus(db), PQ_PIPELINE_OFF);
    }

    std::string orders_ = schema_ + "_app.orders";
    store store_ = open_with("&pool=1");
};

} // namespace

// Proves: OUT-01
TEST_F(postgres_native_handle, its_transaction_is_open_and_no_pipeline_is)
{
    auto tx = store_.begin();
    expect_usable(postgres::native_handle(tx)); // before anything was said
    enqueue(tx, {"order.placed", "1"}, {.dedup_key = "one"});
    expect_usable(postgres::native_handle(tx));
    ASSERT_TRUE(insert(postgres::native_handle(tx)));
    enqueue(tx, {"order.placed", "2"}, {.dedup_key = "two"});
    EXPECT_EQ(orders(), 0);
    tx.commit();
    EXPECT_EQ(orders(), 1);
    EXPECT_EQ(count_messages(store_).ready, 2);
}

// Proves: OUT-01, I1
TEST_F(postgres_native_handle, a_failed_statement_of_the_application_fails_the_transaction)
{
    {
        auto tx = store_.begin();
        enqueue(tx, {"order.placed", "1"});
        ASSERT_FALSE(run(postgres::native_handle(tx), "INSERT INTO nowhere VALUES (1)"));
        EXPECT_THROW(tx.commit(), error);
    }
    EXPECT_EQ(count_messages(store_).ready, 0); // on the same, only connection
}

TEST_F(postgres_native_handle, a_reading_transaction_only_reads)
{
    auto view = store_.read();
    auto* const db = postgres::native_handle(view);
    expect_usable(db);
    EXPECT_FALSE(insert(db));
}

// Proves: OUT-01
TEST_F(postgres_native_handle, names_are_looked_for_where_the_application_wants_it)
{
    auto ours = open_with("&pool=1&options=-csearch_path%3D" + schema_ + "_app");
    const auto insert_in = [&](transaction& tx) {
        return run(postgres::native_handle(tx), "INSERT INTO orders VALUES (1)");
    };
    const auto send_and_insert = [&](bool keep) {
        auto tx = ours.begin();
        enqueue(tx, {"order.placed", "1"});
        EXPECT_TRUE(insert_in(tx)) << "after a statement of Posthorn's";
        EXPECT_TRUE(insert_in(tx));
        if (keep)
            tx.commit();
        else
            tx.rollback();
    };
    send_and_insert(false);
    send_and_insert(true);
    for (int time = 0; time < 2; ++time) {
        auto tx = ours.begin();
        EXPECT_TRUE(insert_in(tx)) << "first of all";
        tx.commit();
    }
    send_and_insert(true);
    EXPECT_EQ(orders(), 6);
}

// Proves: OUT-01, OUT-20
TEST_F(postgres_native_handle, a_lent_connection_that_converts_text_is_refused_and_left_as_it_is)
{
    const auto server = conformance::server_url("POSTHORN_TEST_POSTGRESQL");
    const std::unique_ptr<PGconn, void (*)(PGconn*)> db(PQconnectdb(server.c_str()), &PQfinish);
    ASSERT_TRUE(run(db.get(), "SET client_encoding = 'LATIN1'"));
    ASSERT_TRUE(run(db.get(), "BEGIN"));
    postgres::borrowed_transaction lent(db.get(), {.schema = schema_});
    const auto send = [&] {
        return enqueue(lent, {"Größe", ""}, {.ordering_key = "µ", .headers = {{"a", "ü"}}}).id;
    };
    try {
        send();
        FAIL() << "it was taken";
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), error_code::invalid_argument);
        EXPECT_NE(std::string_view(refusal.what()).find("client_encoding"), std::string_view::npos)
            << refusal.what();
        EXPECT_NE(std::string_view(refusal.what()).find("LATIN1"), std::string_view::npos);
    }
    expect_usable(db.get());
    for (const std::string encoding : {"UTF8", "SQL_ASCII"}) {
        ASSERT_TRUE(run(db.get(), "SET client_encoding = '" + encoding + "'"));
        const auto id = send();
        ASSERT_TRUE(run(db.get(), "COMMIT"));
        const auto found = find_message(store_, id);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->topic, "Größe") << encoding;
        EXPECT_EQ(found->ordering_key, "µ");
        EXPECT_EQ(found->headers.at("a"), "ü");
        ASSERT_TRUE(run(db.get(), "BEGIN"));
    }
}

// Proves: OUT-01
TEST_F(postgres_native_handle, the_encoding_of_a_url_or_a_role_does_not_matter)
{
    const scratch_role guest(*admin_);
    for (const std::string what : {"TABLES", "SEQUENCES", "FUNCTIONS"})
        admin_->execute("GRANT ALL ON ALL " + what + " IN SCHEMA " + schema_ + " TO " +
                        guest.name());
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + guest.name() + "; ALTER ROLE " +
                    guest.name() + " SET client_encoding = 'LATIN1'");
    auto ours = postgres::open(url_as(guest.name()) + "&client_encoding=LATIN2");
    const auto sent = enqueue(ours, {"Größe", ""});
    EXPECT_EQ(find_message(store_, sent.id)->topic, "Größe");
}

} // namespace posthorn::test
