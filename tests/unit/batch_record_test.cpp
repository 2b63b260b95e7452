// The packed form of a batch: what goes into its row comes out again, and damage is noticed.
#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/schema.hpp"
#include <posthorn/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace posthorn::sqlite {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr timestamp claimed{std::chrono::seconds{1'800'000'000}};

class batch_record_row : public ::testing::Test {
protected:
    batch_record_row() { bring_up_to_date(db, world); }

    static batch_record batch_of(std::vector<batch_record::member> members)
    {
        return {fence{7}, "token", "worker", claimed, claimed + 30s, std::move(members)};
    }

    batch_record loaded() { return batch_record::load(db, fence{7}).value(); }

    void overwrite(const std::string& column, const std::string& hex)
    {
        db.execute("UPDATE posthorn_batch SET " + column + " = X'" + hex + "'", "overwrite");
    }

    // What loading a damaged row says.
    std::string complaint()
    {
        try {
            (void)loaded();
            return "no complaint";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), error_code::corrupt);
            return failure.what();
        }
    }

    environment world = environment::system();
    connection db{"", connection::access::memory, {.prefix = "posthorn_", .environment = world}};
};

TEST_F(batch_record_row, there_is_no_batch_of_an_unknown_number)
{
    EXPECT_FALSE(batch_record::load(db, fence{7}));
}

TEST_F(batch_record_row, a_new_batch_comes_back_as_it_was)
{
    batch_of({{1, false}, {2, true}, {1'000'000, false}, {5, true}}).insert(db);
    const auto back = loaded();
    EXPECT_EQ(back.number(), fence{7});
    EXPECT_EQ(back.owner(), "token");
    EXPECT_EQ(back.worker(), "worker");
    EXPECT_EQ(back.claimed_at(), claimed);
    EXPECT_EQ(back.lease_until(), claimed + 30s);
    ASSERT_EQ(back.members().size(), 4U);
    EXPECT_EQ(back.members()[2].seq, 1'000'000);
    EXPECT_FALSE(back.members()[2].queued);
    EXPECT_EQ(back.members()[3].seq, 5);
    EXPECT_TRUE(back.members()[3].queued);
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(back.is_open(i));
        EXPECT_FALSE(back.is_started(i));
        EXPECT_EQ(back.started_at(i), std::nullopt);
    }
}

TEST_F(batch_record_row, only_a_member_under_its_own_ordinal_is_open)
{
    const auto batch = batch_of({{10, false}, {20, false}});
    EXPECT_TRUE(batch.is_open(0, 10));
    EXPECT_FALSE(batch.is_open(0, 20));
    EXPECT_FALSE(batch.is_open(2, 10));
    EXPECT_FALSE(batch.is_open(2));
    EXPECT_FALSE(batch.is_open(4'000'000'000U));
    EXPECT_EQ(batch.ordinal_of(20), 1U);
    EXPECT_EQ(batch.ordinal_of(30), std::nullopt);
}

TEST_F(batch_record_row, a_batch_goes_when_its_last_member_is_settled)
{
    auto batch = batch_of({{1, false}, {2, false}});
    batch.insert(db);
    batch.settle(1);
    batch.save(db);
    EXPECT_FALSE(loaded().is_open(1));
    EXPECT_TRUE(loaded().is_open(0));
    batch.settle(0);
    batch.save(db);
    EXPECT_FALSE(batch_record::load(db, fence{7}));
}

TEST_F(batch_record_row, starts_with_the_claim_are_remembered_for_all)
{
    auto batch = batch_of({{1, false}, {2, false}});
    batch.start_all();
    batch.start(0, claimed + 5s); // changes nothing
    batch.insert(db);
    const auto back = loaded();
    EXPECT_TRUE(back.is_started(0));
    EXPECT_EQ(back.started_at(0), claimed);
    EXPECT_EQ(back.started_at(1), claimed);
}

TEST_F(batch_record_row, the_first_start_of_a_member_counts)
{
    auto batch = batch_of({{1, false}, {2, false}});
    batch.start(1, claimed + 5s);
    batch.start(1, claimed + 6s);
    batch.insert(db);
    EXPECT_EQ(loaded().started_at(1), claimed + 5s);
    EXPECT_FALSE(loaded().is_started(0));
}

TEST_F(batch_record_row, a_clock_that_went_back_leaves_a_start_at_the_claim)
{
    auto batch = batch_of({{1, false}});
    batch.start(0, claimed - 1h);
    batch.insert(db);
    EXPECT_EQ(loaded().started_at(0), claimed);
}

TEST_F(batch_record_row, random_batches_come_back_through_every_change)
{
    std::mt19937_64 chance(20'260'101);
    for (int round = 0; round < 300; ++round) {
        std::vector<batch_record::member> members(1 + chance() % 200);
        for (auto& each : members)
            each = {
                static_cast<std::int64_t>(1 + chance() % (std::uint64_t{1} << (1 + chance() % 40))),
                chance() % 2 == 0};
        auto batch = batch_of(members);
        batch.insert(db);
        std::vector<bool> open(members.size(), true);
        std::vector<std::optional<timestamp>> started(members.size());
        for (int change = 0; change < 20; ++change) {
            const auto ordinal = static_cast<std::uint32_t>(chance() % members.size());
            const auto when =
                claimed + duration{static_cast<duration::rep>(chance() % 100'000'000)};
            if (!open[ordinal])
                continue;
            if (chance() % 2 == 0) {
                batch.start(ordinal, when);
                started[ordinal] = started[ordinal].value_or(when);
            } else if (std::ranges::count(open, true) > 1) {
                batch.settle(ordinal);
                open[ordinal] = false;
            }
            batch.save(db);
        }
        const auto back = loaded();
        ASSERT_EQ(back.members().size(), members.size());
        for (std::uint32_t i = 0; i < members.size(); ++i) {
            ASSERT_EQ(back.members()[i].seq, members[i].seq);
            ASSERT_EQ(back.members()[i].queued, members[i].queued);
            ASSERT_EQ(back.is_open(i), open[i]);
            if (open[i]) {
                ASSERT_EQ(back.started_at(i), started[i]);
            }
        }
        db.execute("DELETE FROM posthorn_batch", "delete");
    }
}

// Proves: F22
TEST_F(batch_record_row, damage_to_a_row_is_noticed)
{
    batch_of({{1, false}, {2, false}}).insert(db);
    overwrite("members", "80");
    EXPECT_THAT(complaint(), HasSubstr("no end"));
    overwrite("members", "FFFFFFFFFFFFFFFFFFFF01"); // more than 64 bits
    EXPECT_THAT(complaint(), HasSubstr("no end"));
    overwrite("members", "040404040404040404"); // nine members for one byte of bits
    EXPECT_THAT(complaint(), HasSubstr("disagree"));
    const std::string huge = "FFFFFFFFFFFFFFFFFF01";
    overwrite("members", huge + huge + huge + huge); // their sum is beyond every number
    EXPECT_NE(complaint(), "no complaint");
    overwrite("members", "0404");
    EXPECT_EQ(complaint(), "no complaint");
    overwrite("settled", "0000");
    EXPECT_THAT(complaint(), HasSubstr("disagree"));
    overwrite("settled", "");
    EXPECT_THAT(complaint(), HasSubstr("disagree"));
    overwrite("settled", "00");
    overwrite("starts", "53020A"); // S, ordinal 2 of two members
    EXPECT_THAT(complaint(), HasSubstr("no member"));
    overwrite("starts", "5301"); // S, ordinal 1, no time
    EXPECT_THAT(complaint(), HasSubstr("no end"));
}

// Proves: F22
TEST_F(batch_record_row, random_bytes_are_read_or_refused_but_never_believed_blindly)
{
    std::mt19937_64 chance(20'260'102);
    batch_of({{1, false}}).insert(db);
    const auto random_hex = [&] {
        static constexpr char digits[] = "0123456789ABCDEF";
        std::string hex(2 * (chance() % 40), '0');
        for (auto& each : hex)
            each = digits[chance() % 2 == 0 ? 15 : chance() % 16];
        return hex;
    };
    for (int round = 0; round < 2'000; ++round) {
        overwrite("members", random_hex());
        overwrite("starts", chance() % 2 == 0 ? "" : "53" + random_hex());
        overwrite("settled", random_hex().substr(0, 2 * (chance() % 3)));
        try {
            const auto read = loaded();
            for (std::uint32_t i = 0; i < read.members().size() + 1; ++i)
                (void)read.is_open(i, 1);
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::corrupt);
        }
    }
}

} // namespace
} // namespace posthorn::sqlite
