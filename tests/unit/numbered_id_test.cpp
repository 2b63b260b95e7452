// Ids that carry their message's number: still a UUIDv7, still different, and found without an
// index.
#include "store/contract/numbered_id.hpp"
#include "store/sqlite/numbered_id.hpp"
#include "store/sqlite/schema.hpp"
#include <posthorn/error.hpp>

#include <gtest/gtest.h>

#include <set>

namespace posthorn::sqlite {
namespace {

constexpr timestamp some_time{duration{1'800'000'000'123'456}};

using contract::make_numbered_id;
using contract::number_in;

// Proves: OUT-03
TEST(numbered_id, an_id_ends_in_its_number_and_is_a_version_7_uuid)
{
    const auto world = environment::system();
    for (const std::int64_t seq : {std::int64_t{1}, std::int64_t{255}, std::int64_t{256},
                                   std::int64_t{1} << 32U, (std::int64_t{1} << 40U) - 1}) {
        const auto id = make_numbered_id(seq, some_time, *world.random);
        EXPECT_EQ(number_in(id), seq);
        EXPECT_EQ(id.value().bytes[6] >> 4U, 7U);
        EXPECT_EQ(id.value().bytes[8] >> 6U, 2U);
    }
}

TEST(numbered_id, ids_of_one_number_and_moment_still_differ)
{
    const auto world = environment::system();
    std::set<message_id> seen;
    for (int i = 0; i < 100; ++i)
        seen.insert(make_numbered_id(1, some_time, *world.random));
    EXPECT_GE(seen.size(), 99U); // 22 random bits: a second equal pair would be a wonder
}

TEST(numbered_id, a_store_that_has_no_numbers_left_says_so)
{
    const auto world = environment::system();
    EXPECT_THROW((void)make_numbered_id(std::int64_t{1} << 40U, some_time, *world.random), error);
}

TEST(numbered_id, an_id_is_found_only_where_number_and_id_agree)
{
    const auto world = environment::system();
    connection db{"", connection::access::memory, {.prefix = "posthorn_", .environment = world}};
    bring_up_to_date(db, world);
    db.execute("INSERT INTO posthorn_enqueue (topic) VALUES ('a'), ('b')", "enqueue");
    db.execute("INSERT INTO posthorn_enqueue (topic, id)"
               " VALUES ('c', X'018F0000000070008000000000000001')",
               "enqueue with an id");
    EXPECT_EQ(find_seq(db, *message_id::parse("018f0000-0000-7000-8000-000000000001")), 3);
    EXPECT_FALSE(find_seq(db, *message_id::parse("018f0000-0000-7000-8000-000000000002")));
    EXPECT_FALSE(find_seq(db, message_id{}));
}

} // namespace
} // namespace posthorn::sqlite
