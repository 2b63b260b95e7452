// A message that somebody else changes while a claim is about to take it: the claim counts exactly
// those that it takes.
#include "integration/postgres/server_fixture.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace posthorn::test {
namespace {

// The claim asks for the time after it has chosen its view of the database and before it takes
// rows: there it can be held up.
constexpr const char* stopping_clock = R"sql(
CREATE OR REPLACE FUNCTION {s}.clock(instead bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$
BEGIN
    IF current_query() LIKE '%both_kinds%' THEN
        PERFORM pg_advisory_lock_shared(hashtext('{s}'), 77);
        PERFORM pg_advisory_unlock_shared(hashtext('{s}'), 77);
    END IF;
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END
$$)sql";

class postgres_claim_race : public server_fixture {
protected:
    std::string named(std::string text) const
    {
        for (auto at = text.find("{s}"); at != std::string::npos; at = text.find("{s}"))
            text.replace(at, 3, schema_);
        return text;
    }
    void run(const std::string& text) { admin_->execute(named(text)); }

    bool somebody_waits()
    {
        return admin_->count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid "
                             "= 77 AND NOT granted AND classid::int8 & 4294967295 = hashtext('" +
                             schema_ + "')::int8 & 4294967295") == 1;
    }

    store store_ = open_with("");
    outbox queue_{store_};
    owner who_ = owner::create("alice", *system_.random);
};

} // namespace

// Proves: OUT-10, I2, I20
TEST_F(postgres_claim_race, a_message_that_changes_under_a_claim_is_taken_or_left_but_not_half)
{
    const auto id = enqueue(store_, {"orders", ""}, {.priority = 3}).id;
    enqueue(store_, {"orders", ""}, {.priority = 1});
    run(stopping_clock);
    run("SELECT pg_advisory_lock(hashtext('{s}'), 77)");
    auto claiming = std::async(std::launch::async, [&] { return queue_.claim(who_); });
    wait_until([&] { return somebody_waits(); });
    // What another worker's claim and retry leave behind: a newer row, and due as before.
    run("UPDATE {s}.message SET attempts = attempts + 1 WHERE priority = 3");
    run("SELECT pg_advisory_unlock(hashtext('{s}'), 77)");

    auto claimed = claiming.get();
    const auto counts = count_messages(store_);
    EXPECT_EQ(counts.claimed, static_cast<std::int64_t>(claimed.size()));
    EXPECT_EQ(counts.claimed + counts.ready, 2);
    EXPECT_EQ(queue_.acknowledge(who_, claimed.receipts()).settled(), claimed.size());
    claimed = queue_.claim(who_);
    EXPECT_EQ(queue_.acknowledge(who_, claimed.receipts()).settled(), claimed.size());
    EXPECT_EQ(count_messages(store_).claimed, 0);
    EXPECT_EQ(count_messages(store_).done, 2);
    EXPECT_EQ(find_message(store_, id)->attempts, 2);
}

} // namespace posthorn::test
