// The path of a URL on its way out.
#include "transport/webhook/http_sink.hpp"
#include <posthorn/webhook.hpp>

#include <gtest/gtest.h>

namespace posthorn {
namespace {

// Proves: TRN-03
TEST(webhook_path, is_sent_as_it_was_given)
{
    test::http_sink sink([](const auto&) { return test::reply(200); });
    const auto hooks = open_webhook({.url = sink.url(), .allow_private = {"127.0.0.0/8"}});
    for (const auto* path :
         {"/hooks/../admin", "/hooks/./a//b/..", "/hooks/%2E%2e/admin?a=/../b"}) {
        const transport_message what{.id =
                                         *message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057"),
                                     .topic = "orders",
                                     .destination = sink.url(path)};
        EXPECT_TRUE(hooks->publish({&what, 1}).at(0).accepted());
        EXPECT_EQ(sink.requests().back().path, path);
    }
}

} // namespace
} // namespace posthorn
