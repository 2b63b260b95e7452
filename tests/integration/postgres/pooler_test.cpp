// Behind pgbouncer, which hands a server's session to another client after each transaction: with
// ?pooler=transaction everything works, and without it the error says so.
#include "checker/scratch_folder.hpp"
#include "gate/socket.hpp"
#include "integration/postgres/server_fixture.hpp"
#include "integration/sqlite/child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using conformance::thrown_by;
using ::testing::HasSubstr;

/// A pgbouncer in transaction mode before a server, with three connections to share.
class pgbouncer {
public:
    explicit pgbouncer(const std::string& server_port)
        : port_(unused_port()),
          config_(folder_.write("pgbouncer.ini", "[databases]\n"
                                                 "postgres = host=127.0.0.1 port=" +
                                                     server_port +
                                                     " user=postgres\n"
                                                     "[pgbouncer]\n"
                                                     "listen_addr = 127.0.0.1\n"
                                                     "listen_port = " +
                                                     port_ +
                                                     "\nunix_socket_dir =\n"
                                                     "auth_type = any\n"
                                                     "pool_mode = transaction\n"
                                                     "default_pool_size = 3\n"
                                                     "max_client_conn = 100\n")),
          process_([&] { run(); })
    {}

    [[nodiscard]] const std::string& port() const { return port_; }

private:
    static std::string unused_port() { return std::to_string(port_of(bound_socket(0))); }

    // It refuses to be root, and then becomes whom it is told.
    void run() const
    {
        const int nowhere = ::open("/dev/null", O_RDWR);
        dup2(nowhere, STDERR_FILENO);
        if (geteuid() == 0)
            execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", "-u", "postgres", config_.c_str(),
                  nullptr);
        else
            execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", config_.c_str(), nullptr);
        throw std::runtime_error("there is no /usr/sbin/pgbouncer");
    }

    checker::scratch_folder folder_;
    std::string port_;
    std::filesystem::path config_;
    child_process process_;
};

class postgres_pooler : public server_fixture {
protected:
    static constexpr int producers = 4;
    static constexpr int workers = 4;
    static constexpr int per_producer = 60;

    postgres_pooler()
    {
        wait_until([&] {
            try {
                (void)posthorn::open(url() + "&pooler=transaction");
                return true;
            } catch (const error& failure) {
                EXPECT_TRUE(failure.retryable()) << failure.what();
                return false;
            }
        });
    }

    [[nodiscard]] std::string url() const
    {
        auto url = under_test_->url();
        return url.replace(url.rfind(':') + 1, server_port().size(), pooler_.port());
    }

    [[nodiscard]] std::string server_port() const
    {
        const auto url = under_test_->url();
        const auto colon = url.rfind(':') + 1;
        return url.substr(colon, url.find('/', colon) - colon);
    }

    static outgoing message_of(int number)
    {
        outgoing result{{"orders", number % 10 == 7   ? "fail"
                                   : number % 10 == 3 ? "retry"
                                                      : "x"},
                        {}};
        if (number % 4 == 1)
            result.options.ordering_key = "key " + std::to_string(number % 3);
        if (number % 4 == 2)
            result.options.delay = 5ms;
        if (number % 4 == 3)
            result.options.priority = number % 9;
        if (number % 5 == 0)
            result.options.dedup_key = "once " + std::to_string(number);
        return result;
    }

    static enqueued enqueue_inside(store& where, const outgoing& what)
    {
        auto tx = where.begin();
        const auto added = enqueue(tx, what.message, what.options);
        tx.commit();
        return added;
    }

    /// Half of them in transactions, some of which roll back; some are cancelled at once.
    void produce(store where)
    {
        for (int number = 0; number < per_producer; ++number) {
            const auto what = message_of(number);
            if (number % 6 == 5) { // this one changes its mind
                auto tx = where.begin();
                enqueue(tx, what.message, what.options);
                continue;
            }
            const auto added = number % 2 == 0 ? enqueue(where, what.message, what.options)
                                               : enqueue_inside(where, what);
            if (added.duplicate)
                continue;
            ++added_;
            if (number % 7 == 0 && cancel(where, added.id) == cancel_answer::cancelled)
                ++cancelled_;
        }
    }

    void work(store where, const std::string& name)
    {
        outbox box(where, {.on_dead = dead_key::skips});
        const auto me = owner::create(name, *where.environment().random);
        while (!finished_.load()) {
            const auto claimed = box.claim(me, {.limit = 5});
            std::vector<settlement> ends;
            for (const auto& each : claimed.deliveries) {
                auto how = done();
                if (each.payload == "fail")
                    how = fail("as asked");
                if (each.payload == "retry" && each.attempt == 1)
                    how = retry_in(0ms, "as asked");
                ends.push_back({each.receipt, how});
            }
            EXPECT_EQ(box.settle(me, ends).lost(), 0U);
            note(claimed);
            if (claimed.empty())
                where.environment().clock->pause(1ms);
        }
    }

    void note(const batch& claimed)
    {
        const std::lock_guard lock(mutex_);
        for (const auto& each : claimed.deliveries)
            ++starts_[each.receipt.id];
    }

    pgbouncer pooler_{server_port()};
    std::atomic<bool> finished_{false};
    std::atomic<int> added_{0};
    std::atomic<int> cancelled_{0};
    std::mutex mutex_;
    std::map<message_id, int> starts_;
};

} // namespace

TEST_F(postgres_pooler, eight_threads_share_three_sessions_and_everything_works)
{
    auto ours = posthorn::open(url() + "&pooler=transaction&pool=16");
    {
        std::vector<std::jthread> working;
        for (int i = 0; i < workers; ++i)
            working.emplace_back([&, i] { work(ours, "worker " + std::to_string(i)); });
        std::vector<std::jthread> producing;
        for (int i = 0; i < producers; ++i)
            producing.emplace_back([&] { produce(ours); });
        producing.clear();
        wait_until([&] {
            const auto stats = count_messages(ours);
            return stats.ready + stats.delayed + stats.waiting + stats.claimed == 0;
        });
        finished_ = true;
    }
    auto stats = count_messages(ours);
    EXPECT_GT(stats.dead, 0);
    EXPECT_EQ(stats.done + stats.dead + stats.cancelled, added_.load());
    EXPECT_EQ(stats.cancelled, cancelled_.load());
    for (const auto& [id, count] : starts_) {
        const auto found = find_message(ours, id).value();
        EXPECT_EQ(count, found.errors > 0 && found.state == message_state::done ? 2 : 1);
    }

    const auto dead = static_cast<std::size_t>(stats.dead);
    EXPECT_EQ(redrive(ours, message_filter{}), dead);
    outbox box(ours);
    const owner alice{.token = "token of alice", .worker = "alice"};
    std::size_t settled = 0;
    for (auto claimed = box.claim(alice); !claimed.empty(); claimed = box.claim(alice))
        settled += box.acknowledge(alice, claimed.receipts()).settled();
    EXPECT_EQ(settled, dead);
    EXPECT_EQ(count_messages(ours).dead, 0);
    for (const auto& each : diagnose(url() + "&pooler=transaction"))
        if (each.check != "durability") { // the server of the tests has none
            EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
        }
}

TEST_F(postgres_pooler, settings_of_a_transaction_do_not_stay_in_the_shared_session)
{
    auto ours = posthorn::open(url() + "&pooler=transaction&lock_timeout=77ms");
    enqueue(ours, {"orders", "x"});
    const owner alice{.token = "token of alice", .worker = "alice"};
    EXPECT_EQ(outbox(ours).claim(alice).size(), 1U);
    auto others = posthorn::open(url() + "&pooler=transaction&lock_timeout=10s");
    const auto id = enqueue(others, {"orders", "y"}).id;
    admin_->begin();
    admin_->execute("SELECT 1 FROM " + schema_ + ".message WHERE id = '" + to_string(id) +
                    "' FOR UPDATE");
    EXPECT_EQ(thrown_by([&] { (void)cancel(ours, id); }).code(), error_code::busy);
    std::jthread later([&] {
        system_.clock->pause(300ms);
        admin_->rollback();
    });
    EXPECT_EQ(cancel(others, id), cancel_answer::cancelled) << "the other's patience holds";
}

TEST_F(postgres_pooler, what_is_settled_waits_no_longer_than_it_may)
{
    auto ours = posthorn::open(url() + "&pooler=transaction&lock_timeout=77ms");
    enqueue(ours, {"orders", "x"});
    const owner alice{.token = "token of alice", .worker = "alice"};
    outbox queue(ours);
    const auto claimed = queue.claim(alice);
    admin_->begin();
    admin_->execute("SELECT 1 FROM " + schema_ + ".batch FOR UPDATE");
    EXPECT_EQ(thrown_by([&] { (void)queue.acknowledge(alice, claimed.receipts()); }).code(),
              error_code::busy);
    admin_->rollback();
    EXPECT_EQ(queue.acknowledge(alice, claimed.receipts()).settled(), 1U);
}

// Proves: LSE-01, LSE-04
TEST_F(postgres_pooler, leases_are_granted_renewed_fenced_and_waited_for)
{
    auto ours = posthorn::open(url() + "&pooler=transaction");
    auto others = posthorn::open(url() + "&pooler=transaction");
    auto held = try_lease(ours, "reindex", {.length = 1h});
    ASSERT_TRUE(held);
    EXPECT_FALSE(try_lease(others, "reindex"));
    EXPECT_TRUE(held->renew());
    write_fenced(ours, *held, [](transaction& tx) { enqueue(tx, {"orders", "x"}); });
    std::jthread later([&] {
        system_.clock->pause(50ms);
        EXPECT_TRUE(held->release());
    });
    const auto next = acquire_lease(others, "reindex", 30s);
    ASSERT_TRUE(next);
    EXPECT_GT(next->fence(), held->fence());
    EXPECT_EQ(thrown_by([&] { write_fenced(ours, *held, [](transaction&) {}); }).code(),
              error_code::lease_lost);
}

TEST_F(postgres_pooler, without_the_parameter_the_error_says_what_to_do)
{
    const auto first = posthorn::open(url());
    const auto failure = thrown_by([&] { (void)posthorn::open(url()); });
    EXPECT_EQ(failure.code(), error_code::unsupported) << failure.what();
    EXPECT_FALSE(failure.retryable());
    EXPECT_THAT(failure.what(), HasSubstr("?pooler=transaction"));
}

} // namespace posthorn::test
