// Rows that others have written past every check: they must stop neither a worker nor a listing.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Deep enough to overflow the stack of anything that calls itself once per level.
std::string deep_headers()
{
    constexpr std::size_t levels = 400'000;
    return R"({"a":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
}

class unreadable_rows : public conformance_test {
protected:
    void write_headers(message_id of, const std::string& headers)
    {
        const auto position = look(of).position;
        auto tx = db().begin();
        under_test().run_in(tx, "UPDATE " + under_test().table_of_messages() +
                                    " SET headers = " + sql_quoted(headers) +
                                    " WHERE seq = " + std::to_string(position));
        tx.commit();
    }

    void expect_set_aside(message_id which, const std::string& why)
    {
        const auto record = look(which);
        EXPECT_EQ(record.state, message_state::dead);
        EXPECT_THAT(record.last_error, StartsWith("cannot be read: "));
        EXPECT_THAT(record.last_error, HasSubstr(why));
    }
};

// Proves: F28
TEST_P(unreadable_rows, headers_nested_without_end_are_set_aside_and_the_rest_goes_on)
{
    const auto before = add();
    const auto bad = add();
    const auto after = add();
    write_headers(bad, deep_headers());

    const auto claimed = claim();
    EXPECT_THAT(ids_of(claimed), ElementsAre(before, after));
    expect_set_aside(bad, "nested");
    for (const auto& each : claimed.deliveries)
        EXPECT_EQ(acknowledge(each.receipt), settled_as::done);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(count_messages(db()).dead, 1);
}

// Proves: F28
TEST_P(unreadable_rows, a_row_with_a_key_or_a_priority_is_set_aside_too)
{
    const auto keyed = add_keyed("k");
    const auto urgent = add("orders", {.priority = 5});
    const auto plain = add();
    write_headers(keyed, deep_headers());
    write_headers(urgent, "{");

    EXPECT_THAT(claimed_ids(), ElementsAre(plain));
    expect_set_aside(keyed, "nested");
    expect_set_aside(urgent, "not a JSON object");
    EXPECT_TRUE(look(keyed).blocks_key);
}

TEST_P(unreadable_rows, a_claim_is_not_empty_because_of_them_alone)
{
    for (int i = 0; i < 3; ++i)
        write_headers(add(), "[1]");
    const auto good = add();
    EXPECT_THAT(claimed_ids(1), ElementsAre(good));
    EXPECT_EQ(count_messages(db()).dead, 3);
}

TEST_P(unreadable_rows, listings_show_them_with_the_reason)
{
    const auto bad = add();
    const auto good = add();
    write_headers(bad, deep_headers());

    const auto shown = list_messages(db());
    ASSERT_THAT(ids_of(shown), ElementsAre(bad, good));
    EXPECT_THAT(shown[0].headers,
                Contains(::testing::Pair("posthorn-unreadable-headers", HasSubstr("nested"))));
    (void)claimed_ids();
    EXPECT_THAT(ids_of(list_messages(db(), {.state = message_state::dead})), ElementsAre(bad));
}

CONFORMANCE_SUITE(unreadable_rows);

} // namespace
} // namespace posthorn::conformance
