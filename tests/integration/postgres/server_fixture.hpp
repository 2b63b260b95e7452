// What tests of errors share: a schema of their own on the server that tests are told of, and an
// administrator's connection to it.
#pragma once

#include "conformance/conformance_test.hpp"
#include "conformance/postgres_under_test.hpp"
#include "conformance/server_under_test.hpp"
#include "hang_limit.hpp"
#include <posthorn/postgres.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace posthorn::test {

/// A role that may log in and nothing else; gone with this object, and all its rights with it.
class scratch_role {
public:
    explicit scratch_role(conformance::native_connection& admin, const std::string& options = "")
        : admin_(admin)
    {
        admin_.execute("CREATE ROLE " + name_ + " LOGIN " + options);
    }
    scratch_role(const scratch_role&) = delete;
    scratch_role& operator=(const scratch_role&) = delete;
    ~scratch_role()
    {
        try {
            admin_.execute("DROP OWNED BY " + name_ + "; DROP ROLE " + name_);
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the role " << name_ << " stays behind: " << failure.what();
        }
    }

    [[nodiscard]] const std::string& name() const { return name_; }

private:
    conformance::native_connection& admin_;
    std::string name_ = conformance::unused_name();
};

class server_fixture : public ::testing::Test {
protected:
    /// A handle with further parameters of the URL: "&pool=1".
    [[nodiscard]] store open_with(const std::string& parameters, const environment& world = system_)
    {
        return postgres::open(under_test_->url() + parameters, {.environment = world});
    }

    [[nodiscard]] std::string url_as(const std::string& user) const
    {
        auto url = under_test_->url();
        const auto begin = url.find("//") + 2;
        return url.replace(begin, url.find('@') - begin, user);
    }

    enum class retry { helps, is_useless };

    /// An error of the server itself, outside of any doubt.
    static void expect(const error& failure, error_code code, retry again,
                       const std::string& statement)
    {
        EXPECT_EQ(failure.code(), code) << failure.what();
        EXPECT_EQ(failure.retryable(), again == retry::helps) << failure.what();
        EXPECT_FALSE(failure.in_doubt()) << failure.what();
        EXPECT_NE(failure.native_code(), 0) << failure.what();
        EXPECT_EQ(failure.statement(), statement) << failure.what();
    }

    std::int64_t backends_of(const std::string& application)
    {
        return admin_->count("SELECT count(*) FROM pg_stat_activity WHERE application_name = '" +
                             application + "'");
    }

    /// Returns when they are gone.
    void end_backends_of(const std::string& application)
    {
        ASSERT_GE(admin_->count("SELECT count(pg_terminate_backend(pid, 10000)) FROM "
                                "pg_stat_activity WHERE application_name = '" +
                                application + "'"),
                  1);
    }

    static void wait_until(const std::function<bool()>& condition,
                           std::chrono::seconds limit = hang_limit)
    {
        const auto& clock = *system_.clock;
        for (const auto end = clock.monotonic() + limit; !condition();)
            if (clock.monotonic() > end)
                throw std::runtime_error("it did not happen in time");
            else
                clock.pause(std::chrono::milliseconds{2});
    }

    /// Until every transaction that runs now, of whomever on this server, has ended.
    void wait_for_strangers()
    {
        const auto now = admin_->count("SELECT pg_snapshot_xmax(pg_current_snapshot())::text");
        wait_until(
            [&] {
                return admin_->count("SELECT pg_snapshot_xmin(pg_current_snapshot())::text") >= now;
            },
            std::chrono::seconds{80});
    }

    inline static const environment system_ = environment::system();
    std::unique_ptr<conformance::store_under_test> under_test_ = conformance::make_postgres();
    std::string schema_ = under_test_->url().substr(under_test_->url().find("schema=") + 7);
    std::unique_ptr<conformance::native_connection> admin_ = under_test_->connect(system_);
};

} // namespace posthorn::test
