// Too much, too slow, too many at once, no store, and the end.
#include "endpoint/endpoint_fixture.hpp"
#include "integration/sqlite/temporary_store.hpp"

#include <atomic>
#include <future>
#include <set>
#include <thread>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using endpoint_limits = endpoint_test;

// Proves: INB-05
TEST_F(endpoint_limits, a_body_that_is_too_large_is_refused_however_it_comes)
{
    auto how = options();
    how.body_bytes_max = 1'000;
    inbox_endpoint small(store, how);
    port = small.start();
    const std::string most(1'000, 'x');
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, most).status, 202);
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "2"}}, most + "x").status, 413);
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "2"}}, std::string(500'000, 'x')).status, 413);
    const std::string chunked = "POST /hooks/open HTTP/1.1\r\nwebhook-id: 3\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n";
    EXPECT_EQ(ask(chunked + "5\r\nhello\r\n0\r\n\r\n").status, 202);
    std::string many;
    for (int i = 0; i < 100; ++i)
        many += "20\r\n" + std::string(32, 'x') + "\r\n";
    EXPECT_EQ(ask(chunked + many + "0\r\n\r\n").status, 413);
    EXPECT_THAT(list_inbound(store), SizeIs(2));
}

// Proves: INB-05
TEST_F(endpoint_limits, what_is_left_of_a_refused_request_is_never_taken_for_another_one)
{
    const auto inner = test::request("POST", "/hooks/open", {{"webhook-id", "smuggled"}}, "x");
    const std::vector<std::string> outers{
        "GET /hooks/open HTTP/1.1\r\nContent-Length: " + std::to_string(inner.size()) + "\r\n\r\n",
        std::string("GET / HTTP/1.1\r\n\r\n"),
        "POST /hooks/open HTTP/1.1\r\nContent-Type: multipart/form-data\r\nContent-Length: " +
            std::to_string(inner.size()) + "\r\n\r\n"};
    for (const auto& outer : outers) {
        const auto said = ask(outer + inner);
        EXPECT_THAT(said.text, ::testing::Not(HasSubstr("202")));
    }
    EXPECT_THAT(list_inbound(store), IsEmpty());
}

// Proves: INB-05
TEST(endpoint_of_a_store_that_is_away, says_when_to_come_again_and_stores_it_then)
{
    const test::temporary_store file;
    auto where = open(file.url() + "?busy_timeout=10ms");
    inbox_endpoint endpoint(
        where,
        {.paths = {{.path = "/in", .source = "shop", .unsigned_allowed = true, .topic = "orders"}},
         .retry_after = 7s});
    const auto port = endpoint.start();
    const auto bytes = test::request("POST", "/in", {{"webhook-id", "1"}}, "{}");
    {
        auto other = file.open();
        auto holder = other.begin();
        enqueue(holder, {"mine", ""});
        const auto said = test::ask(port, bytes);
        EXPECT_EQ(said.status, 503);
        EXPECT_THAT(said.text, AllOf(HasSubstr("Retry-After: 7"), HasSubstr("send it again")));
        EXPECT_EQ(endpoint.report().failures, 1U);
    }
    EXPECT_EQ(test::ask(port, bytes).status, 202);
    EXPECT_THAT(list_inbound(where), SizeIs(1));
}

// Proves: INB-05
TEST_F(endpoint_limits, many_who_send_the_same_at_once_store_it_once)
{
    constexpr int senders = 8;
    constexpr int messages = 20;
    std::atomic<int> stored = 0;
    std::atomic<int> known = 0;
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < senders; ++i)
            all.emplace_back([&] {
                for (int j = 0; j < messages; ++j) {
                    const auto status = post_signed("msg_" + std::to_string(j), "{}").status;
                    stored += status == 202 ? 1 : 0;
                    known += status == 200 ? 1 : 0;
                }
            });
    }
    EXPECT_EQ(stored, messages);
    EXPECT_EQ(known, (senders - 1) * messages);
    EXPECT_THAT(list_inbound(store), SizeIs(messages));
}

// Proves: INB-05
TEST_F(endpoint_limits, no_more_are_served_at_once_than_allowed)
{
    auto how = options();
    how.connections_max = 2;
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    how.progress = [&](const feed_report&, const std::string&) {
        most = std::max(most.load(), ++inside);
        std::this_thread::yield();
        --inside;
    };
    inbox_endpoint narrow(store, how);
    port = narrow.start();
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < 10; ++i)
            all.emplace_back(
                [&, i] { EXPECT_EQ(post_signed("msg_" + std::to_string(i), "{}").status, 202); });
    }
    EXPECT_LE(most, 2);
}

// Proves: INB-05
TEST_F(endpoint_limits, who_says_nothing_makes_place_for_others)
{
    auto how = options();
    how.connections_max = 1;
    how.request_within = 1s;
    inbox_endpoint narrow(store, how);
    port = narrow.start();
    test::http_client silent(port);
    test::http_client slow(port);
    slow.send("POST /hooks/open HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
    EXPECT_EQ(post_signed("msg_1", "{}").status, 202);
    EXPECT_THAT(slow.read_all(), AllOf(HasSubstr("408"), HasSubstr("took too long")));
    EXPECT_EQ(silent.read_all(), "");
}

// Proves: INB-05
TEST_F(endpoint_limits, stopping_lets_requests_end_that_have_begun)
{
    auto how = options();
    std::promise<void> entered;
    std::promise<void> may_leave;
    how.progress = [&](const feed_report&, const std::string&) {
        entered.set_value();
        may_leave.get_future().wait();
    };
    inbox_endpoint ending(store, how);
    port = ending.start();
    std::jthread sending([&] { EXPECT_EQ(post_signed("msg_1", "{}").status, 202); });
    entered.get_future().wait();
    std::jthread stopping([&] { ending.stop(); });
    may_leave.set_value();
    stopping.join();
    sending.join();
    ending.stop();
    EXPECT_THROW(test::http_client{port}, std::system_error);
}

TEST_F(endpoint_limits, one_that_was_never_started_can_be_stopped)
{
    inbox_endpoint idle(store, options());
    idle.stop();
}

} // namespace
} // namespace posthorn
