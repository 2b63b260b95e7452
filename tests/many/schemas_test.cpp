// Many schemas of one PostgreSQL database over a few connections. POSTHORN_MANY_SCHEMAS says how
// many.
#include "conformance/postgres_under_test.hpp"
#include "conformance/server_under_test.hpp"
#include "many/many_test.hpp"
#include "many/process_cost.hpp"
#include <posthorn/postgres.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace posthorn::test {
namespace {

/// Schemas of a database of their own, gone with this object.
class schema_tenants {
public:
    explicit schema_tenants(std::size_t count)
    {
        admin_->execute("CREATE DATABASE " + name_);
        const auto server = conformance::server_url("POSTHORN_TEST_POSTGRESQL");
        base_ = server.substr(0, server.rfind('/') + 1) + name_;
        for (std::size_t i = 0; i < count; ++i) {
            list_.push_back({.name = "tenant-" + std::to_string(i), .url = url(i)});
            migrate(url(i));
        }
    }
    schema_tenants(const schema_tenants&) = delete;
    schema_tenants& operator=(const schema_tenants&) = delete;
    ~schema_tenants() { admin_->execute("DROP DATABASE " + name_ + " WITH (FORCE)"); }

    [[nodiscard]] std::string url(std::size_t which) const
    {
        return base_ + "?application_name=" + name_ + "&schema=tenant_" + std::to_string(which);
    }
    [[nodiscard]] const std::vector<named_store>& list() const { return list_; }

    /// As another process would.
    void send(std::size_t which) const
    {
        auto where = posthorn::open(other_url(which));
        enqueue(where, {"orders", ""});
    }

    std::int64_t connections()
    {
        return admin_->count("SELECT count(*) FROM pg_stat_activity WHERE application_name = '" +
                             name_ + "'");
    }
    void cut()
    {
        admin_->execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "application_name = '" +
                        name_ + "'");
    }

private:
    [[nodiscard]] std::string other_url(std::size_t which) const
    {
        return base_ + "?application_name=other&pool=1&schema=tenant_" + std::to_string(which);
    }

    std::unique_ptr<conformance::store_under_test> server_ = conformance::make_postgres();
    std::unique_ptr<conformance::native_connection> admin_ =
        server_->connect(environment::system());
    std::string name_ = conformance::unused_name();
    std::string base_;
    std::vector<named_store> list_;
};

// A server with a thousand schemas takes its time.
bool eventually_all_idle(const worker& one)
{
    const auto idle = [&] {
        const auto now = one.stores();
        return !now.empty() && std::ranges::all_of(now, [](const store_status& each) {
            return each.state == store_state::idle;
        });
    };
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!idle() && std::chrono::steady_clock::now() < end)
        environment::system().clock->pause(5ms);
    return idle();
}

// Proves: MDB-07
TEST(schemas, of_one_database_share_a_few_connections_and_wake_within_a_second)
{
    const char* asked = std::getenv("POSTHORN_MANY_SCHEMAS");
    const std::size_t count = asked == nullptr ? 60 : std::stoul(asked);
    schema_tenants all(count);
    worker one(stores(all.list()));
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    ASSERT_TRUE(eventually_all_idle(one));

    const auto used_before = processor_time();
    const auto from = std::chrono::steady_clock::now();
    environment::system().clock->pause(3s);
    const auto share = std::chrono::duration<double>(processor_time() - used_before) /
                       std::chrono::duration<double>(std::chrono::steady_clock::now() - from);
    duration worst{};
    for (std::size_t i = 0; i < 30; ++i) {
        const auto which = i * 7919 % count;
        const auto name = all.list()[which].name;
        const auto before = seen.of(name);
        all.send(which);
        const auto sent = std::chrono::steady_clock::now();
        ASSERT_TRUE(eventually([&] { return seen.of(name) > before; })) << name;
        worst = std::max(
            worst, std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - sent));
    }
    std::printf(
        "%zu idle schemas: %.2f %% of a core, %.0f MiB, %zu descriptors, %ld connections, a "
        "message begins after %.1f ms at most\n",
        count, share * 100, resident_mib(), open_descriptors(),
        static_cast<long>(all.connections()),
        std::chrono::duration<double, std::milli>(worst).count());
    EXPECT_LE(share, 0.03);
    EXPECT_LE(worst, 1s);
    EXPECT_LE(all.connections(), 8);
    EXPECT_LE(resident_mib(), 256);
    EXPECT_EQ(running.end().done, 30U);
}

// Proves: MDB-07, I19
TEST(schemas, are_drained_over_shared_connections_and_outcomes_stay_apart)
{
    schema_tenants all(5);
    for (std::size_t i = 0; i < 5; ++i) {
        auto where = posthorn::open(all.url(i));
        for (std::size_t n = 0; n < 20; ++n)
            enqueue(where, {"orders", std::to_string(i)}, {.ordering_key = n % 2 ? "odd" : ""});
    }
    router to(stores(all.list(), {.connections_max = 2}));
    worker one(stores(all.list(), {.connections_max = 2}), {.concurrency = 6});
    tally seen;
    one.handle("orders", [&](transactional_delivery<>& d) {
        EXPECT_EQ(d.store(), "tenant-" + d.payload());
        seen.add(d.store());
        enqueue(d.tx(), {"later", ""}, {.delay = 1h});
    });
    EXPECT_EQ(one.process_outbox().done, 100U);
    for (const auto& each : all.list()) {
        auto where = to.store(each.name);
        EXPECT_EQ(seen.of(each.name), 20U);
        EXPECT_EQ(count_messages(where).delayed, 20) << each.name;
    }
}

// Proves: MDB-07
TEST(schemas, are_heard_again_after_all_connections_were_cut)
{
    schema_tenants all(4);
    worker one(stores(all.list()), {.look_at_least_every = 1h});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    ASSERT_TRUE(eventually_all_idle(one));
    for (std::size_t round = 1; round <= 2; ++round) {
        all.cut();
        for (std::size_t i = 0; i < 4; ++i) {
            all.send(i);
            EXPECT_TRUE(eventually([&] { return seen.of(all.list()[i].name) == round; }));
        }
    }
    EXPECT_EQ(running.end().done, 8U);
}

} // namespace
} // namespace posthorn::test
