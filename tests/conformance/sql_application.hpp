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

    void catch_up() { clock().set(app().now()); }

    /// Sends one message in a statement of its own.
    message_id send(const sql_message& message) { return app().send(message); }
    message_id send() { return send({{"topic", "orders"}, {"payload", "payload"}}); }
    message_id send_with(const std::string& name, const sql_value& value)
    {
        return send({{"topic", "orders"}, {name, value}});
    }

    std::int64_t rows() { return app().rows(); }

    /// What the database says to a message, or to a statement; "taken" if it takes it.
    std::string verdict(const sql_message& message)
    {
        return words_of([&] { (void)app().send(message); });
    }
    std::string verdict_on(const std::string& sql)
    {
        return words_of([&] { app().execute(sql); });
    }

    /// Refused in Posthorn's words, alone and inside a transaction that goes on, without a trace.
    void expect_refused(const sql_message& message, const std::string& why)
    {
        expect_said(message, ::testing::AllOf(::testing::StartsWith("posthorn: "),
                                              ::testing::HasSubstr(why)));
    }

    /// The same for a value of a wrong type, which some engines refuse themselves.
    void expect_wrong_type(const sql_message& message, const std::string& why)
    {
        if (GetParam().can.untyped_arguments)
            expect_refused(message, why);
        else
            expect_refused_somehow(message);
    }

    /// The same for what may not even be an argument to the engine.
    void expect_refused_somehow(const sql_message& message)
    {
        expect_said(message, ::testing::Ne("taken"));
    }

    /// One argument beside the topic, which Posthorn's words must name.
    void expect_refused_with(const std::string& name, const sql_value& value)
    {
        expect_refused({{"topic", "orders"}, {name, value}}, name);
    }
    void expect_wrong_type_with(const std::string& name, const sql_value& value)
    {
        expect_wrong_type({{"topic", "orders"}, {name, value}}, name);
    }

private:
    void expect_said(const sql_message& message, const ::testing::Matcher<std::string>& rightly)
    {
        const auto before = rows();
        EXPECT_THAT(verdict(message), rightly) << described(message);
        app().begin();
        EXPECT_THAT(verdict(message), rightly) << described(message);
        EXPECT_TRUE(app().in_transaction());
        app().commit();
        EXPECT_EQ(rows(), before) << described(message);
    }

    std::string words_of(const std::function<void()>& action)
    {
        try {
            app().attempt(action);
            return "taken";
        } catch (const std::runtime_error& refused) {
            return refused.what();
        }
    }

    std::unique_ptr<native_connection> app_;
};

} // namespace posthorn::conformance
