// Leases in many stores: in a named one, and in any that can be reached.
#include "conformance/conformance_test.hpp"
#include <posthorn/leases.hpp>

#include <mutex>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One store of each kind that has a URL, and one that does not exist.
class leases_of_many : public ::testing::Test {
protected:
    leases_of_many()
    {
        for (const auto& kind : store_kinds()) {
            if (!kind.can.other_processes)
                continue;
            made_.push_back(kind.make());
            list_.push_back({.name = kind.name, .url = made_.back()->url()});
        }
    }

    lease_router router()
    {
        auto world = environment::system();
        world.log = [this](log_level, std::string_view line) {
            const std::lock_guard lock(mutex_);
            log_ += line;
            log_ += '\n';
        };
        return lease_router(stores(list_, {.open = {.environment = world}}));
    }

    std::vector<std::unique_ptr<store_under_test>> made_;
    std::vector<named_store> list_;
    std::mutex mutex_;
    std::string log_;
};

// Proves: MDB-05
TEST_F(leases_of_many, are_granted_in_the_store_that_is_named)
{
    auto among = router();
    std::vector<std::string> names;
    std::vector<lease> held;
    for (auto& each : among.all()) {
        names.push_back(each.store_name());
        auto got = each.try_acquire("reindex");
        ASSERT_TRUE(got) << each.store_name() << ": each store has its own";
        held.push_back(std::move(*got));
    }
    EXPECT_EQ(names.size(), list_.size());
    for (const auto& each : list_) {
        auto one = among.in(each.name);
        EXPECT_EQ(one.store_name(), each.name);
        EXPECT_FALSE(one.try_acquire("reindex"));
        EXPECT_TRUE(one.acquire("another", 0s));
    }
    EXPECT_EQ(thrown_by([&] { (void)among.in("nowhere"); }).code(), error_code::not_found);
}

// Proves: MDB-05
TEST_F(leases_of_many, any_store_will_do_and_those_in_trouble_are_passed_over)
{
    list_.insert(list_.begin(), {.name = "gone", .url = "sqlite:/nonexistent/gone.db"});
    auto among = router();
    std::vector<std::string> names;
    std::vector<lease> held;
    while (auto got = among.try_in_any("batch")) {
        names.push_back(got->store);
        held.push_back(std::move(got->held));
        ASSERT_LE(held.size(), list_.size());
    }
    ASSERT_EQ(names.size(), list_.size() - 1) << "once in each that can be reached";
    EXPECT_EQ(names.front(), list_[1].name);
    EXPECT_THAT(log_, HasSubstr("no lease 'batch' from the store 'gone'"));
    EXPECT_TRUE(held.front().release());
    const auto again = among.try_in_any("batch");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->store, list_[1].name);
    EXPECT_EQ(thrown_by([&] { (void)among.try_in_any(""); }).code(), error_code::invalid_argument);
}

} // namespace
} // namespace posthorn::conformance
