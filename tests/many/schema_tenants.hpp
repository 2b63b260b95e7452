// Tenants that are schemas of one PostgreSQL database.
#pragma once

#include "conformance/postgres_under_test.hpp"
#include "conformance/server_under_test.hpp"
#include "many/many_test.hpp"
#include <posthorn/postgres.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::test {

/// Schemas of a database of their own, gone with this object.
class schema_tenants {
public:
    /// `port`: of a gate before the server, for the worker.
    explicit schema_tenants(std::size_t count, std::optional<std::uint16_t> port = {})
    {
        admin_->execute("CREATE DATABASE " + name_);
        const auto server = conformance::server_url("POSTHORN_TEST_POSTGRESQL");
        base_ = server.substr(0, server.rfind('/') + 1) + name_;
        gate_ = base_;
        if (port)
            gate_.replace(gate_.rfind(':') + 1, gate_.rfind('/') - gate_.rfind(':') - 1,
                          std::to_string(*port));
        for (std::size_t i = 0; i < count; ++i) {
            list_.push_back({.name = "tenant-" + std::to_string(i), .url = url(i)});
            migrate(other_url(i));
        }
    }
    schema_tenants(const schema_tenants&) = delete;
    schema_tenants& operator=(const schema_tenants&) = delete;
    ~schema_tenants() { admin_->execute("DROP DATABASE " + name_ + " WITH (FORCE)"); }

    [[nodiscard]] std::string url(std::size_t which) const
    {
        return gate_ + "?application_name=" + name_ + "&schema=tenant_" + std::to_string(which);
    }
    [[nodiscard]] const std::vector<named_store>& list() const { return list_; }

    /// As another process would.
    message_id send(std::size_t which, const std::string& topic = "orders") const
    {
        auto where = posthorn::open(other_url(which));
        return enqueue(where, {topic, ""}).id;
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

    /// Past the gate, and known by another name.
    [[nodiscard]] std::string other_url(std::size_t which) const
    {
        return base_ + "?application_name=other&pool=1&schema=tenant_" + std::to_string(which);
    }

private:
    std::unique_ptr<conformance::store_under_test> server_ = conformance::make_postgres();
    std::unique_ptr<conformance::native_connection> admin_ =
        server_->connect(environment::system());
    std::string name_ = conformance::unused_name();
    std::string base_;
    std::string gate_;
    std::vector<named_store> list_;
};

// A server with a thousand schemas takes its time.
inline bool eventually_all_idle(const worker& one)
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

} // namespace posthorn::test
