// A store in memory with an endpoint in front of it, and two senders.
#pragma once

#include "endpoint/http_client.hpp"
#include <posthorn/inbox.hpp>
#include <posthorn/inbox_endpoint.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn {

// Stands wherever a secret can, and must not be in anything that senders or people see.
inline const std::string endpoint_canary = "canary-Rk4pT8sVq2";

class endpoint_test : public ::testing::Test {
protected:
    inbox_endpoint_options options()
    {
        return {
            .paths = {{.path = "/hooks/shop", .source = "shop", .secrets = {secret, old_secret}},
                      {.path = "/hooks/open",
                       .source = "neighbour",
                       .unsigned_allowed = true,
                       .topic = "said"}}};
    }

    [[nodiscard]] std::int64_t now() const
    {
        return std::chrono::floor<std::chrono::seconds>(store.clock().now())
            .time_since_epoch()
            .count();
    }

    [[nodiscard]] test::header_lines signed_by(const std::string& with, const std::string& id,
                                               const std::string& body) const
    {
        auto lines = test::signed_lines(id, now(), body, {with});
        lines.emplace_back("Ce-Type", "orders.placed");
        return lines;
    }

    test::http_answer post(const std::string& path, const test::header_lines& lines,
                           const std::string& body)
    {
        return ask(test::request("POST", path, lines, body));
    }

    test::http_answer ask(const std::string& bytes)
    {
        auto said = test::ask(port, bytes);
        EXPECT_THAT(said.text, ::testing::Not(::testing::HasSubstr(endpoint_canary)));
        return said;
    }

    test::http_answer post_signed(const std::string& id, const std::string& body)
    {
        return post("/hooks/shop", signed_by(secret, id, body), body);
    }

    void SetUp() override { port = endpoint.start(); }
    void TearDown() override
    {
        for (const auto& line : store.log())
            EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr(endpoint_canary)));
    }

    const std::string secret = "the new secret " + endpoint_canary;
    const std::string old_secret = "the old secret " + endpoint_canary;
    testing::store_for_tests store;
    inbox_endpoint endpoint{store, options()};
    std::uint16_t port = 0;
};

} // namespace posthorn
