// A store's file is removed, and another one takes its place, while handles to it are open.
#include "hang_limit.hpp"
#include <posthorn/posthorn.hpp>
#include <posthorn/sqlite.hpp>
#include <posthorn/worker.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

namespace posthorn::test {
namespace {

class replaced_file : public ::testing::Test {
protected:
    replaced_file()
    {
        std::filesystem::create_directories(folder_);
        sqlite::migrate(url());
    }
    ~replaced_file() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::string url() const { return "sqlite:" + (folder_ / "store.db").string(); }

    void remove()
    {
        for (const auto* end : {"", "-wal", "-shm"})
            std::filesystem::remove(folder_ / ("store.db" + std::string(end)));
    }

    // As restoring from a copy does: the new file is complete when it gets its name.
    void replace()
    {
        const auto next = folder_ / "next.db";
        sqlite::migrate("sqlite:" + next.string());
        remove();
        std::filesystem::rename(next, folder_ / "store.db");
    }

    static bool eventually(const std::function<bool()>& condition)
    {
        const auto end = std::chrono::steady_clock::now() + hang_limit;
        while (!condition()) {
            if (std::chrono::steady_clock::now() > end)
                return false;
            std::this_thread::yield();
        }
        return true;
    }

    const std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() /
        ("replaced_" + std::to_string(environment::system().random->bits()));
    const message some{.topic = "orders", .payload = ""};
};

} // namespace

// Proves: I2, F22
TEST_F(replaced_file, is_noticed_by_a_worker_that_sleeps)
{
    auto db = sqlite::open(url());
    worker one(db, {});
    std::atomic<int> handled = 0;
    one.handle("*", [&](delivery_view) { ++handled; });
    std::stop_source stop;
    std::jthread running([&] { one.run({stop.get_token(), {}}); });
    enqueue(db, some);
    EXPECT_TRUE(eventually([&] { return handled == 1; }));
    for (int expected = 2; expected <= 4; ++expected) {
        replace();
        {
            auto another = sqlite::open(url());
            enqueue(another, some);
        }
        EXPECT_TRUE(eventually([&] { return handled == expected; }));
    }
    stop.request_stop();
}

// Proves: I2
TEST_F(replaced_file, gets_what_is_enqueued_through_an_old_handle)
{
    auto db = sqlite::open(url());
    enqueue(db, some);
    (void)count_messages(db);
    replace();
    enqueue(db, some);
    auto fresh = sqlite::open(url());
    EXPECT_EQ(count_messages(fresh).ready, 1);
    EXPECT_EQ(count_messages(db).ready, 1);
}

// Proves: I1, F22
TEST_F(replaced_file, that_is_only_removed_is_an_error_and_not_written_to)
{
    auto db = sqlite::open(url());
    remove();
    try {
        enqueue(db, some);
        ADD_FAILURE() << "enqueued into a file without a name";
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), error_code::not_found) << failure.what();
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "store.db"));
    sqlite::migrate(url());
    enqueue(db, some);
    EXPECT_EQ(count_messages(db).ready, 1);
}

} // namespace posthorn::test
