// The ledger of skips must not outlive the tests it speaks of.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {

// The suite of processes is a program of its own and looks after its entries itself.
TEST(ledger_of_skips, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test([](std::string_view suite) { return suite != "processes"; }),
                ::testing::IsEmpty());
}

TEST(ledger_of_skips, every_store_is_registered_under_a_name_of_its_own)
{
    std::vector<std::string> names;
    for (const auto& kind : store_kinds())
        names.push_back(kind.name);
    EXPECT_THAT(names, ::testing::UnorderedElementsAre("sqlite_file", "sqlite_memory"));
}

} // namespace posthorn::conformance
