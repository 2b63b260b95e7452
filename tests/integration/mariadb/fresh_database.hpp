// A database of one test's own, on the server that POSTHORN_TEST_MARIADB names, and the server's
// own client to look at it from outside.
#pragma once

#include "conformance/server_under_test.hpp"
#include <posthorn/mariadb.hpp>
#include <posthorn/posthorn.hpp>

#include <gtest/gtest.h>
#include <mysql.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>

namespace posthorn::test {

struct server_address {
    std::string user;
    std::string host;
    std::uint16_t port = 0;

    static server_address of_tests()
    {
        const auto url = conformance::server_url("POSTHORN_TEST_MARIADB");
        std::smatch part;
        if (!std::regex_match(url, part, std::regex("mariadb://([^:@/]+)@([^:/]+):([0-9]+)/?")))
            throw std::runtime_error("POSTHORN_TEST_MARIADB is not mariadb://USER@HOST:PORT/");
        return {part.str(1), part.str(2), static_cast<std::uint16_t>(std::stoul(part.str(3)))};
    }
};

/// A connection of the application itself.
class native_client {
public:
    explicit native_client(const std::string& database = {})
    {
        const auto server = server_address::of_tests();
        mysql_options(db_.get(), MYSQL_SET_CHARSET_NAME, "utf8mb4");
        if (mysql_real_connect(db_.get(), server.host.c_str(), server.user.c_str(), nullptr,
                               database.empty() ? nullptr : database.c_str(), server.port, nullptr,
                               CLIENT_MULTI_RESULTS) == nullptr)
            throw std::runtime_error(mysql_error(db_.get()));
    }

    /// The first column of the first row; empty without one.
    std::string run(const std::string& sql)
    {
        std::string found;
        int more = mysql_real_query(db_.get(), sql.data(), sql.size());
        for (; more == 0; more = mysql_next_result(db_.get())) {
            const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> result(
                mysql_store_result(db_.get()), &mysql_free_result);
            auto* const row = result ? mysql_fetch_row(result.get()) : nullptr;
            if (row != nullptr && row[0] != nullptr && found.empty())
                found = std::string(row[0], mysql_fetch_lengths(result.get())[0]);
        }
        if (more > 0)
            throw std::runtime_error(mysql_error(db_.get()));
        return found;
    }

    [[nodiscard]] MYSQL* handle() const { return db_.get(); }

private:
    std::unique_ptr<MYSQL, void (*)(MYSQL*)> db_{mysql_init(nullptr), &mysql_close};
};

class fresh_database {
public:
    fresh_database() { native_client().run("CREATE DATABASE " + name); }
    fresh_database(const fresh_database&) = delete;
    fresh_database& operator=(const fresh_database&) = delete;
    ~fresh_database()
    {
        try {
            native_client db;
            db.run("SET lock_wait_timeout = 10");
            db.run("DROP DATABASE " + name);
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the database " << name << " stays behind: " << failure.what();
        }
    }

    [[nodiscard]] std::string url(const std::string& parameters = {}) const
    {
        return conformance::server_url("POSTHORN_TEST_MARIADB") + name + parameters;
    }

    /// The same server through another port.
    [[nodiscard]] std::string url_through(std::uint16_t port) const
    {
        const auto server = server_address::of_tests();
        return "mariadb://" + server.user + "@127.0.0.1:" + std::to_string(port) + "/" + name;
    }

    const std::string name = conformance::unused_name();
};

/// One with Posthorn's tables.
class migrated_database : public fresh_database {
public:
    migrated_database() { mariadb::migrate(url()); }
};

/// The error that `action` throws; fails the test if it throws none.
inline error error_of(const std::function<void()>& action)
{
    try {
        action();
    } catch (const error& failure) {
        return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {error_code::internal, "nothing was thrown"};
}

} // namespace posthorn::test
