// What tests of messages that are handed over share: a sleeper with offers, and a transaction that
// hangs in its commit.
#pragma once

#include "hang_limit.hpp"
#include "integration/postgres/server_fixture.hpp"
#include "store/contract/backend.hpp"
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace posthorn::test {

using namespace std::chrono_literals;

inline constexpr duration enough = hang_limit;

class postgres_offers : public server_fixture {
protected:
    postgres_offers() { lie_down(*bell_); }

    /// Armed, and no worker is left whose end it would look after.
    void lie_down(contract::bell& which)
    {
        which.arm();
        wait_for_strangers();
        wait_until([&] {
            which.arm();
            return !which.wait(100ms);
        });
    }

    [[nodiscard]] contract::place_offer terms() const
    {
        return {.owner = who_.token,
                .worker = who_.worker,
                .lease = 30s,
                .topics = {"orders"},
                .prefixes = {"mail."}};
    }

    void offer(std::size_t places = 1) { bell_->offer(terms(), places); }

    std::vector<contract::handed_batch> handed(const std::vector<fence>& held = {})
    {
        return bell_->handed_over([&] { return held; });
    }

    /// The one message that was handed over.
    contract::handed_batch take_one()
    {
        auto all = handed();
        if (all.size() != 1 || all.front().messages.size() != 1)
            throw std::runtime_error(std::to_string(all.size()) + " batches were handed over");
        return std::move(all.front());
    }

    std::string sql(const std::string& arguments) const
    {
        return "SELECT " + schema_ + ".enqueue(" + arguments + ")";
    }

    std::int64_t offers() { return admin_->count("SELECT count(*) FROM " + schema_ + ".offer"); }

    message_record look(message_id id) { return *find_message(store_, id); }

    void expect_not_started(message_id id)
    {
        EXPECT_EQ(look(id).state, message_state::ready);
        EXPECT_EQ(look(id).attempts, 0);
    }

    void end_sleeper()
    {
        ASSERT_EQ(
            admin_->count("SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks WHERE "
                          "locktype = 'advisory' AND granted AND classid::int8 & 4294967295 "
                          "= hashtext('" +
                          schema_ + ".offer')::int8 & 4294967295"),
            1);
    }

    /// A transaction that enqueues one message, and hangs in its commit when that has taken an
    /// offer: a trigger of the application, which is called a second time for a change of its own,
    /// waits for a lock that this object has.
    class held_commit {
    public:
        explicit held_commit(postgres_offers& of)
            : admin_(*of.admin_),
              key_("hashtext('" + of.schema_ + "'), 0"),
              app_(of.under_test_->connect(system_))
        {
            admin_.execute("SELECT pg_advisory_lock(" + key_ + ")");
            const auto gate = of.schema_ + "_app.gate";
            admin_.execute(
                "CREATE TABLE " + gate + " (n integer); CREATE FUNCTION " + gate +
                "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'INSERT' THEN UPDATE " +
                gate + " SET n = 1; ELSE PERFORM pg_advisory_xact_lock(" + key_ +
                "); END IF; RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER gate AFTER INSERT OR "
                "UPDATE ON " +
                gate + " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + gate +
                "()");
            app_->begin();
            own_ = app_->count("SELECT pg_current_xact_id()");
            pid_ = app_->count("SELECT pg_backend_pid()");
            app_->execute(of.sql("'orders'"));
            app_->execute("INSERT INTO " + gate + " VALUES (0)");
            commit_ = std::async(std::launch::async, [&] { app_->commit(); });
            wait_until([&] {
                return admin_.count("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype "
                                    "= 'advisory' AND pid = " +
                                    std::to_string(pid_)) == 1;
            });
        }
        held_commit(const held_commit&) = delete;
        held_commit& operator=(const held_commit&) = delete;
        ~held_commit()
        {
            if (commit_.valid())
                fail();
        }

        void go_on()
        {
            admin_.execute("SELECT pg_advisory_unlock(" + key_ + ")");
            commit_.get();
        }

        void fail()
        {
            admin_.execute("SELECT pg_terminate_backend(" + std::to_string(pid_) + ", 10000)");
            EXPECT_ANY_THROW(commit_.get());
            admin_.execute("SELECT pg_advisory_unlock(" + key_ + ")");
        }

        [[nodiscard]] std::int64_t transaction() const { return own_; }

    private:
        conformance::native_connection& admin_;
        std::string key_;
        std::unique_ptr<conformance::native_connection> app_;
        std::int64_t own_ = 0;
        std::int64_t pid_ = 0;
        std::future<void> commit_;
    };

    store store_ = open_with("");
    outbox queue_{store_};
    owner who_ = owner::create("alice", *system_.random);
    std::unique_ptr<contract::bell> bell_ = store_.backend().make_bell();
};

} // namespace posthorn::test
