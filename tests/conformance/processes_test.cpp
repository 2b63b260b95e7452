// Several processes on one store, one of them killed in the middle of its work.
#include "conformance/conformance_test.hpp"

#include <spawn.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace posthorn::conformance {
namespace {

class processes : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        auto name = (std::filesystem::temp_directory_path() / "posthorn-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }

    ~processes() override
    {
        for (const auto pid : running_)
            kill(pid, SIGKILL);
        for (const auto pid : running_)
            waitpid(pid, nullptr, 0);
        std::error_code ignored; // a folder that stays behind must not fail a test
        if (!folder_.empty())
            std::filesystem::remove_all(folder_, ignored);
    }

    pid_t start_worker()
    {
        std::string program = WORKER;
        std::string url = under_test().url();
        std::string notes = folder_ / "notes";
        std::string stop = folder_ / "stop";
        std::vector<char*> arguments{program.data(), url.data(), notes.data(), stop.data(),
                                     nullptr};
        pid_t pid = 0;
        EXPECT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ),
                  0);
        running_.insert(pid);
        return pid;
    }

    void kill_worker(pid_t pid)
    {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        running_.erase(pid);
    }

    void let_workers_finish()
    {
        std::ofstream(folder_ / "stop").put('\n');
        for (const auto pid : running_) {
            int status = 0;
            waitpid(pid, &status, 0);
            EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << pid;
        }
        running_.clear();
    }

    /// Which processes noted each message.
    std::map<std::string, std::vector<pid_t>> notes() const
    {
        std::map<std::string, std::vector<pid_t>> result;
        std::ifstream file(folder_ / "notes");
        std::string id;
        pid_t pid = 0;
        while (file >> id >> pid)
            result[id].push_back(pid);
        return result;
    }

private:
    std::filesystem::path folder_;
    std::set<pid_t> running_;
};

} // namespace

// Proves: I2, I6, F1, OUT-10
TEST_P(processes, a_killed_worker_costs_nothing_but_its_own_claims)
{
    auto real = under_test().open({});
    outbox box(real);
    const auto killed = start_worker();
    for (int i = 0; i < 3; ++i)
        start_worker();

    std::vector<message_id> ids;
    const auto some_more = [&](int times) {
        for (int i = 0; i < times; ++i)
            for (const auto& each :
                 enqueue(real, std::vector<outgoing>(10, {.message = {"orders", "x"}})))
                ids.push_back(each.id);
    };
    some_more(60);
    kill_worker(killed);
    some_more(60);

    // The dead worker's lease runs out on the real clock; until then its messages are claimed.
    while (count_messages(real).claimed > 0 || count_messages(real).ready > 0 ||
           count_messages(real).delayed > 0) {
        box.reap_expired();
        for (const auto& each :
             list_messages(real, {.state = message_state::ready, .limit = 1'000})) {
            const bool waits = each.due_at > real.environment().clock->now();
            EXPECT_TRUE(!waits || each.attempts == 1)
                << "only what the dead worker had started waits";
        }
        real.environment().clock->pause(5ms);
    }
    let_workers_finish();

    const auto seen = notes();
    std::size_t twice = 0;
    for (const auto id : ids) {
        EXPECT_EQ(find_message(real, id)->state, message_state::done) << to_string(id);
        const auto who = seen.find(to_string(id));
        ASSERT_NE(who, seen.end()) << to_string(id);
        if (who->second.size() == 1)
            continue;
        ++twice;
        EXPECT_EQ(who->second.size(), 2U);
        EXPECT_EQ(who->second.front(), killed) << "a message was delivered twice without a reason";
    }
    EXPECT_EQ(seen.size(), ids.size());
    EXPECT_LE(twice, 20U) << "the killed worker held one batch of 20";
}

TEST(ledger_of_skips_of_processes, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test([](std::string_view suite) { return suite == "processes"; }),
                ::testing::IsEmpty());
}

CONFORMANCE_SUITE(processes);

} // namespace posthorn::conformance
