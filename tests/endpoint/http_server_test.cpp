// What the server beneath the endpoint and the daemon's port says by itself.
#include "endpoint/http_client.hpp"
#include "http/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <stdexcept>

namespace posthorn::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Proves: INB-05, OPS-04
TEST(http_server, what_a_handler_throws_is_not_told_to_strangers)
{
    server under_test({.who = "the test",
                       .address = "127.0.0.1",
                       .port = 0,
                       .connections_max = 1,
                       .body_bytes_max = 0,
                       .request_within = std::chrono::seconds{10}});
    under_test.answers().Get("/", [](const httplib::Request&, httplib::Response&) {
        throw std::runtime_error("the password is canary");
    });
    const auto said = test::ask(under_test.start(), "GET / HTTP/1.1\r\n\r\n");
    EXPECT_EQ(said.status, 500);
    EXPECT_THAT(said.text, Not(HasSubstr("canary")));
}

} // namespace
} // namespace posthorn::http
