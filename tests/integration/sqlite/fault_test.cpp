// The file system fails at the first write, then at the second, until no write is left to fail.
// After each failure the store is whole, and what was being done has happened completely or not at
// all.
#include "integration/sqlite/faulty_files.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const owner me{.token = "token of the test", .worker = "test"};

struct fault {
    std::string name;
    int code;
    faulty_files::lasting how;

    friend std::ostream& operator<<(std::ostream& out, const fault& which)
    {
        return out << which.name;
    }
};

class file_fault : public ::testing::TestWithParam<fault> {
protected:
    using action = std::function<void(store&)>;

    file_fault()
    {
        faulty_files::install();
        world.clock = std::make_shared<testing::manual_clock>();
    }
    ~file_fault() override { faulty_files::off(); }

    // A fresh copy of the store that `prepare` made, as if every run were the first.
    std::string fresh_copy()
    {
        const auto path = folder.file("copy.db");
        for (const auto* part : {"", "-wal", "-shm"})
            std::filesystem::remove(path + part);
        std::filesystem::copy_file(folder.file("original.db"), path);
        return "sqlite:" + path;
    }

    void prepare(const action& fill)
    {
        const auto url = "sqlite:" + folder.file("original.db");
        sqlite::migrate(url, options());
        auto where = sqlite::open(url, options());
        fill(where);
    } // closing writes the log back into the file

    store_options options() const { return {.environment = world}; }

    std::string state_of(const std::string& url)
    {
        auto where = sqlite::open(url, options());
        std::string text;
        for (const auto& each : list_messages(where, {.limit = 10'000, .with_payload = true}))
            text += each.payload + " " + std::string(to_string(each.state)) + " after " +
                    std::to_string(each.attempts) + " " + each.last_error + "\n";
        return text;
    }

    void expect_no_problem(const std::string& url)
    {
        for (const auto& each : sqlite::diagnose(url, options()))
            EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
    }

    void expect_clear(const error& failure)
    {
        if (GetParam().code == SQLITE_FULL) {
            EXPECT_EQ(failure.code(), error_code::storage_full) << failure.what();
            EXPECT_THAT(failure.what(), HasSubstr("disk space"));
        } else {
            EXPECT_EQ(failure.code(), error_code::unavailable) << failure.what();
            EXPECT_THAT(failure.what(), HasSubstr("I/O error"));
        }
        EXPECT_TRUE(failure.retryable());
        EXPECT_EQ(failure.in_doubt(),
                  failure.statement() == "commit" && GetParam().code == SQLITE_IOERR);
    }

    // Runs `act` on fresh copies, failing one write after the other; where there are thousands, the
    // later ones only here and there.
    void fail_each_write_of(const action& act, int each_of_the_first = 100)
    {
        const auto before = state_of(fresh_copy());
        std::string after;
        {
            const auto url = fresh_copy();
            auto where = sqlite::open(url, options());
            act(where);
            after = state_of(url);
        }
        ASSERT_NE(before, after);

        errors = 0;
        for (int number = 1;; number += number < each_of_the_first ? 1 : number / 4) {
            SCOPED_TRACE(GetParam().name + " at write " + std::to_string(number));
            if (!fail_one_write_of(act, number, before, after))
                break;
            ASSERT_FALSE(HasFailure());
        }
        EXPECT_GT(errors, 1);
    }

    // Returns: whether there was such a write.
    bool fail_one_write_of(const action& act, int number, const std::string& before,
                           const std::string& after)
    {
        const auto url = fresh_copy();
        bool threw = false;
        bool in_doubt = false;
        bool fired = false;
        {
            auto where = sqlite::open(url, options());
            faulty_files::fail(number, GetParam().code, GetParam().how);
            try {
                act(where);
            } catch (const error& failure) {
                threw = true;
                ++errors;
                in_doubt = failure.in_doubt();
                expect_clear(failure);
            }
            fired = faulty_files::off();
            // The handle goes on working, without being opened again.
            const auto seen = state_of(url);
            if (threw && seen == before)
                EXPECT_NO_THROW(act(where));
            else
                EXPECT_EQ(seen, after);
            EXPECT_FALSE(threw && !in_doubt && seen != before) << "an error, and yet it happened";
        }
        EXPECT_EQ(state_of(url), after);
        expect_no_problem(url);
        return fired;
    }

    temporary_folder folder;
    environment world = environment::system();
    int errors = 0;
};

std::vector<outgoing> mixed_messages(int count, std::size_t bytes = 10)
{
    std::vector<outgoing> result;
    for (int i = 0; i < count; ++i) {
        outgoing one{{"order", std::to_string(i) + std::string(bytes, '.')}, {}};
        if (i % 4 == 1)
            one.options.ordering_key = "key";
        if (i % 4 == 2)
            one.options.delay = 1h;
        if (i % 4 == 3)
            one.options.dedup_key = std::to_string(i);
        result.push_back(std::move(one));
    }
    return result;
}

// Proves: F9, F10, I1
TEST_P(file_fault, a_bulk_enqueue_is_there_completely_or_not_at_all)
{
    prepare([](store& where) { enqueue(where, {"order", "first"}); });
    fail_each_write_of([](store& where) { enqueue(where, mixed_messages(20)); });
}

// Proves: F9, F10, I1
TEST_P(file_fault, an_enqueue_larger_than_the_log_of_sqlite_is_there_completely_or_not_at_all)
{
    prepare([](store& where) { enqueue(where, {"order", "first"}); });
    fail_each_write_of([](store& where) { enqueue(where, mixed_messages(1'100, 3'500)); }, 24);
}

// Proves: F9, F10, I2
TEST_P(file_fault, a_claim_takes_all_its_messages_or_none)
{
    prepare([](store& where) { enqueue(where, mixed_messages(20)); });
    fail_each_write_of([](store& where) {
        const auto batch = outbox(where).claim(me, {.limit = 8, .start = 3});
        EXPECT_EQ(batch.size(), 8U);
    });
}

// Proves: F9, F10, I2
TEST_P(file_fault, a_settlement_counts_for_all_its_messages_or_for_none)
{
    std::vector<receipt> claimed;
    prepare([&](store& where) {
        enqueue(where, mixed_messages(20));
        claimed = outbox(where).claim(me, {.limit = 8}).receipts();
    });
    ASSERT_EQ(claimed.size(), 8U);
    const std::vector<outcome> outcomes{done(), retry("x"), fail("y"), postpone(1h),
                                        park(park_reason::paused)};
    fail_each_write_of([&](store& where) {
        std::vector<settlement> all;
        for (std::size_t i = 0; i < claimed.size(); ++i)
            all.push_back({claimed[i], outcomes[i % outcomes.size()]});
        EXPECT_EQ(outbox(where).settle(me, all).lost(), 0U);
    });
}

// Proves: F9, F10, OUT-15, I2
TEST_P(file_fault, a_claim_takes_parked_messages_back_with_it_or_leaves_them)
{
    prepare([](store& where) {
        enqueue(where, mixed_messages(20));
        std::vector<settlement> all;
        for (const auto& each : outbox(where).claim(me).receipts())
            all.push_back({each, park(park_reason::no_handler)});
        outbox(where).settle(me, all);
    });
    fail_each_write_of([](store& where) {
        const auto batch = outbox(where).claim(me, {.limit = 8, .start = 3, .unpark = {"order"}});
        EXPECT_EQ(batch.size(), 8U);
    });
}

// The pattern `try { commit } catch { rollback; throw }` must be harmless, whatever fails.
// Proves: F9, F10
TEST_P(file_fault, a_transaction_whose_commit_failed_takes_a_rollback)
{
    prepare([](store& where) { enqueue(where, {"order", "first"}); });
    auto where = sqlite::open(fresh_copy(), options());
    for (int number = 1; number <= 8; ++number) {
        SCOPED_TRACE(GetParam().name + " at write " + std::to_string(number));
        auto tx = where.begin();
        enqueue(tx, {"order", "next"});
        faulty_files::fail(number, GetParam().code, GetParam().how);
        try {
            tx.commit();
            faulty_files::off();
            continue;
        } catch (const error& failure) {
            ++errors;
            faulty_files::off();
            if (!failure.poisons_connection()) {
                tx.rollback();
                continue;
            }
        }
        for (const auto& deed :
             {std::function<void()>([&] {
                  enqueue(tx, {"order", "late"});
              }),
              std::function<void()>([&] { (void)hold_lease(tx, "lease", fence{1}); }),
              std::function<void()>([&] { (void)sqlite::native_handle(tx); }),
              std::function<void()>([&] { tx.commit(); })}) {
            try {
                deed();
                ADD_FAILURE() << "nothing was thrown";
            } catch (const error& failure) {
                EXPECT_EQ(failure.code(), error_code::no_transaction) << failure.what();
            }
        }
        tx.rollback();
    }
    EXPECT_GT(errors, 1);
    enqueue(where, {"order", "last"});
}

// Proves: F9, F10
TEST_P(file_fault, a_migration_makes_all_tables_or_none)
{
    for (int number = 1;; number += std::max(1, number / 10)) {
        SCOPED_TRACE(GetParam().name + " at write " + std::to_string(number));
        const auto url = "sqlite:" + folder.file(std::to_string(number) + ".db");
        faulty_files::fail(number, GetParam().code, GetParam().how);
        try {
            sqlite::migrate(url, options());
        } catch (const error& failure) {
            ++errors;
            EXPECT_THAT(failure.code(), AnyOf(error_code::storage_full, error_code::unavailable))
                << failure.what();
        }
        const bool fired = faulty_files::off();
        EXPECT_NO_THROW(sqlite::migrate(url, options()));
        expect_no_problem(url);
        ASSERT_FALSE(HasFailure());
        if (!fired)
            break;
    }
    EXPECT_GT(errors, 1);
}

INSTANTIATE_TEST_SUITE_P(
    faults, file_fault,
    ::testing::Values(fault{"io_error_once", SQLITE_IOERR, faulty_files::lasting::once},
                      fault{"io_errors", SQLITE_IOERR, faulty_files::lasting::until_off},
                      fault{"disk_full_once", SQLITE_FULL, faulty_files::lasting::once},
                      fault{"disk_full", SQLITE_FULL, faulty_files::lasting::until_off}),
    [](const auto& chosen) { return chosen.param.name; });

} // namespace
} // namespace posthorn::test
