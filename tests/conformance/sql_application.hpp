// An application in another language: it has a connection of its own and one statement to enqueue
// with, and it hears what the database says. That statement runs on the database's clock.
#pragma once

#include "conformance/conformance_test.hpp"

#include <stdexcept>

namespace posthorn::conformance {

/// A test whose clock starts where the database's stands.
class sql_application : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        app_ = under_test().connect(world());
        catch_up();
    }

    /// The application, which knows SQL and nothing of Posthorn.
    native_connection& app() { return *app_; }

    timestamp database_time()
    {
        return timestamp{std::chrono::milliseconds{
            app().count("SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000"
                        "     + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)")}};
    }

    void catch_up() { clock().set(database_time()); }

    /// Inserts one message in a statement of its own.
    message_id send(const std::string& columns, const std::string& values)
    {
        app().execute(statement(columns, values));
        return newest();
    }
    message_id send() { return send("topic, payload", "'orders', 'payload'"); }
    message_id send_with(const std::string& column, const std::string& value)
    {
        return send("topic, " + column, "'orders', " + value);
    }

    message_id newest()
    {
        return message_id::parse(
                   app().text("SELECT lower(hex(id)) FROM posthorn_message ORDER BY seq DESC"))
            .value();
    }

    /// Everything that the tables of messages hold.
    std::int64_t rows()
    {
        return app().count("SELECT (SELECT count(*) FROM posthorn_message)"
                           "     + (SELECT count(*) FROM posthorn_queue)"
                           "     + (SELECT count(*) FROM posthorn_dedup)");
    }

    /// What the database says to a statement; "taken" if it takes it.
    std::string verdict(const std::string& sql)
    {
        try {
            app().execute(sql);
            return "taken";
        } catch (const std::runtime_error& refused) {
            return refused.what();
        }
    }

    std::string verdict_on(const std::string& columns, const std::string& values)
    {
        return verdict(statement(columns, values));
    }

    /// Refused in Posthorn's words, alone and inside a transaction, and without a trace.
    void expect_refused(const std::string& columns, const std::string& values,
                        const std::string& why)
    {
        const auto before = rows();
        EXPECT_THAT(
            verdict_on(columns, values),
            ::testing::AllOf(::testing::StartsWith("posthorn: "), ::testing::HasSubstr(why)))
            << columns << " = " << values.substr(0, 100);
        app().begin();
        EXPECT_THAT(verdict_on(columns, values), ::testing::HasSubstr(why));
        EXPECT_TRUE(app().in_transaction());
        app().commit();
        EXPECT_EQ(rows(), before) << columns << " = " << values.substr(0, 100);
    }

    void expect_refused(const std::string& column, const std::string& value)
    {
        expect_refused("topic, " + column, "'orders', " + value, "posthorn: " + column + " must");
    }

private:
    static std::string statement(const std::string& columns, const std::string& values)
    {
        return "INSERT INTO posthorn_enqueue (" + columns + ") VALUES (" + values + ")";
    }

    std::unique_ptr<native_connection> app_;
};

} // namespace posthorn::conformance
