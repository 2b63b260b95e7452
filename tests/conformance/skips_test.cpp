// The ledger of skips must not outlive the tests it speaks of.
#include "conformance/conformance_test.hpp"
#include "conformance/skips.hpp"

#include <set>

namespace posthorn::conformance {

// The suites that are programs of their own look after their entries themselves.
TEST(ledger_of_skips, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test([](std::string_view suite) {
                    return suite != "processes" && suite != "key_stress" &&
                           suite != "bells_from_elsewhere" && suite != "concurrency" &&
                           suite != "join_interleavings" && suite != "inbox_interleavings" &&
                           suite != "job_interleavings" && suite != "borrowed_inbox" &&
                           suite != "lease_interleavings" && suite != "leases" &&
                           suite != "waiting_for_leases";
                }),
                ::testing::IsEmpty());
}

TEST(ledger_of_skips, every_store_is_registered_under_a_name_of_its_own)
{
    std::set<std::string> names;
    for (const auto& kind : store_kinds())
        EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_THAT(names, ::testing::IsSupersetOf({"sqlite_file", "sqlite_memory"}));
}

TEST(ledger_of_skips, every_entry_names_a_store_that_is_or_will_be)
{
    for (const auto& entry : skips)
        EXPECT_THAT(entry.store,
                    ::testing::AnyOf("sqlite_file", "sqlite_memory", "postgres", "mariadb"));
}

} // namespace posthorn::conformance
