// Who is believed, what is stored, and what is said about it.
#include "endpoint/endpoint_fixture.hpp"
#include <posthorn/error.hpp>
#include <posthorn/worker.hpp>

#include <functional>
#include <mutex>
#include <thread>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Proves: INB-05
TEST_F(endpoint_test, a_message_is_stored_before_its_sender_hears_of_it)
{
    const auto body = "{\"order\":7}" + endpoint_canary;
    auto lines = signed_by(secret, "msg_1", body);
    lines.emplace_back("posthorn-corr-id", "ord%C3%A9r");
    lines.emplace_back("posthorn-encoded", "posthorn-corr-id");
    lines.emplace_back("ce-partitionkey", "customer%207");
    lines.emplace_back("Content-Type", "application/json");
    lines.emplace_back("Lang", "de");
    lines.emplace_back("Cookie", "session=1");
    lines.emplace_back("User-Agent", "somebody");
    const auto said = post("/hooks/shop", lines, body);
    EXPECT_EQ(said.status, 202) << said.text;
    EXPECT_THAT(said.text,
                AllOf(HasSubstr("application/json"), HasSubstr(R"({"result":"stored"})")));
    const auto known = find_inbound(store, {"shop", "msg_1"});
    ASSERT_TRUE(known);
    const auto kept = find_message(store, *known->message);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->topic, "inbox:orders.placed");
    EXPECT_EQ(kept->payload, body);
    EXPECT_EQ(kept->ordering_key, "customer 7");
    EXPECT_EQ(kept->correlation_id, "ordér");
    EXPECT_EQ(kept->headers, (headers{{"content-type", "application/json"},
                                      {"lang", "de"},
                                      {"posthorn-source", "shop"},
                                      {"posthorn-source-id", "msg_1"}}));
    EXPECT_EQ(endpoint.report().stored, 1U);
}

// Proves: INB-05
TEST_F(endpoint_test, the_same_again_is_known_and_has_one_effect)
{
    int effects = 0;
    worker worker(store, {.concurrency = 1});
    worker.handle(inbox_topic("orders.placed"), [&](const delivery_view&) { ++effects; });
    EXPECT_EQ(post_signed("msg_1", "{}").status, 202);
    EXPECT_EQ(post_signed("msg_1", "{}").status, 200);
    testing::drain(worker);
    const auto again = post_signed("msg_1", "{}");
    EXPECT_EQ(again.status, 200);
    EXPECT_THAT(again.text, HasSubstr(R"({"result":"known"})"));
    testing::drain(worker);
    EXPECT_EQ(effects, 1);
    EXPECT_EQ(endpoint.report().repeated, 2U);
}

// Proves: INB-05
TEST_F(endpoint_test, nobody_is_believed_who_does_not_know_a_secret)
{
    const std::string body = "{}";
    EXPECT_EQ(post("/hooks/shop", signed_by(old_secret, "old", body), body).status, 202);
    const auto good = signed_by(secret, "msg_1", body);
    const auto changed = [&](const std::string& name, const std::string& value) {
        auto lines = good;
        for (auto& each : lines)
            if (each.first == name)
                each.second = value;
        if (value.empty())
            std::erase_if(lines, [&](const auto& each) { return each.first == name; });
        return post("/hooks/shop", lines, body).status;
    };
    EXPECT_EQ(post("/hooks/shop", {}, body).status, 400);
    EXPECT_EQ(changed("Webhook-Id", ""), 400);
    EXPECT_EQ(changed("Webhook-Id", "msg.1"), 400);
    EXPECT_EQ(changed("Webhook-Id", "msg_2"), 401);
    EXPECT_EQ(changed("Webhook-Timestamp", ""), 401);
    EXPECT_EQ(changed("Webhook-Timestamp", "soon"), 400);
    EXPECT_EQ(changed("Webhook-Signature", ""), 401);
    EXPECT_EQ(changed("Webhook-Signature", "v1,AAAA"), 401);
    EXPECT_EQ(post("/hooks/shop", good, "{ }").status, 401);
    EXPECT_EQ(post("/hooks/shop", signed_by("somebody else's secret", "x", body), body).status,
              401);
    for (const auto off : {-301, 301}) {
        const auto late = test::signed_lines("late", now() + off, body, {secret});
        const auto said = post("/hooks/shop", late, body);
        EXPECT_EQ(said.status, 401);
        EXPECT_THAT(said.text, HasSubstr("clock"));
    }
    EXPECT_THAT(list_inbound(store), SizeIs(1));
    EXPECT_EQ(endpoint.report().refused, 12U);
}

// Proves: INB-05
TEST_F(endpoint_test, the_id_that_is_signed_wins_over_those_that_are_not)
{
    auto lines = signed_by(secret, "msg_1", "{}");
    lines.emplace_back("ce-id", "another");
    lines.emplace_back("posthorn-msg-id", "01890a5d-ac96-774b-bcce-b302099a8057");
    EXPECT_EQ(post("/hooks/shop", lines, "{}").status, 202);
    EXPECT_TRUE(find_inbound(store, {"shop", "msg_1"}));
    EXPECT_THAT(list_inbound(store), SizeIs(1));
}

// Proves: INB-05
TEST_F(endpoint_test, where_it_is_allowed_strangers_need_no_signature)
{
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, "x").status, 202);
    EXPECT_EQ(post("/hooks/open", {{"ce-id", "2"}, {"ce-type", "greeting"}}, "x").status, 202);
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, "x").status, 200);
    EXPECT_EQ(post("/hooks/open", {}, "x").status, 400);
    EXPECT_EQ(post("/hooks/shop", test::signed_lines("no_topic", now(), "", {secret}), "").status,
              422);
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", std::string(256, 'x')}}, "x").status, 422);
    EXPECT_EQ(
        post("/hooks/open", {{"webhook-id", "3"}, {"ce-type", std::string(495, 't')}}, "x").status,
        422);
    std::vector<std::string> topics;
    for (const auto& each : list_messages(store))
        topics.push_back(each.topic);
    EXPECT_THAT(topics, ::testing::UnorderedElementsAre("inbox:said", "inbox:greeting"));
}

// Proves: INB-05
TEST_F(endpoint_test, a_topic_that_wins_is_the_topic_of_all)
{
    auto how = options();
    how.paths.at(0).topic = "orders";
    how.paths.at(0).topic_wins = true;
    inbox_endpoint strict(store, how);
    port = strict.start();
    EXPECT_EQ(post_signed("msg_1", "{}").status, 202);
    EXPECT_EQ(list_messages(store).at(0).topic, "inbox:orders");
}

// Proves: INB-05
TEST_F(endpoint_test, other_paths_methods_and_forms_are_refused_in_json)
{
    const auto status = [&](const std::string& method, const std::string& path,
                            const test::header_lines& lines = {}) {
        const auto said = ask(test::request(method, path, lines, "some bytes"));
        if (method != "HEAD") {
            EXPECT_THAT(said.text, AllOf(HasSubstr("\"error\":"), HasSubstr("\"advice\":")))
                << method << path;
        }
        if (said.status == 405) {
            EXPECT_THAT(said.text, HasSubstr("Allow: POST"));
        }
        return said.status;
    };
    for (const std::string method : {"PUT", "PATCH", "DELETE"}) {
        EXPECT_EQ(status(method, "/hooks/shop"), 405) << method;
        EXPECT_EQ(status(method, "/"), 404) << method;
    }
    EXPECT_EQ(ask("GET /hooks/shop HTTP/1.1\r\n\r\n").status, 405);
    EXPECT_EQ(ask("HEAD /hooks/shop HTTP/1.1\r\n\r\n").status, 405);
    EXPECT_EQ(ask("OPTIONS /hooks/shop HTTP/1.1\r\n\r\n").status, 405);
    EXPECT_EQ(ask("DELETE /hooks/shop HTTP/1.1\r\n\r\n").status, 405);
    EXPECT_EQ(ask("GET / HTTP/1.1\r\n\r\n").status, 404);
    for (const std::string path : {"/", "/hooks", "/hooks/shop/", "/hooks/shopx", "/HOOKS/shop",
                                   "//hooks/shop", "/hooks/%0ashop"})
        EXPECT_EQ(status("POST", path), 404) << path;
    EXPECT_EQ(status("POST", "/" + std::string(2'000, 'x')), 404);
    EXPECT_EQ(status("POST", "/hooks/open", {{"Content-Encoding", "gzip"}, {"webhook-id", "1"}}),
              415);
    EXPECT_EQ(status("POST", "/hooks/open",
                     {{"Content-Type", "multipart/form-data; boundary=x"}, {"webhook-id", "1"}}),
              415);
    EXPECT_EQ(ask("nonsense\r\n\r\n").status, 400);
    EXPECT_EQ(ask("TRACE /hooks/shop HTTP/1.1\r\n\r\n").status, 400);
    EXPECT_THAT(list_inbound(store), IsEmpty());
}

// Proves: INB-05
TEST_F(endpoint_test, a_query_behind_the_path_changes_nothing)
{
    EXPECT_EQ(post("/hooks/shop?x=1", signed_by(secret, "msg_1", "{}"), "{}").status, 202);
}

// Proves: INB-05
TEST_F(endpoint_test, a_router_finds_the_store_of_each_message)
{
    testing::store_for_tests second;
    auto how = options();
    how.paths.at(1).topic.clear();
    inbox_endpoint routed(
        [&](const fed_message& what, const std::string& source) -> posthorn::store {
            EXPECT_EQ(source, "neighbour");
            if (what.topic == "first")
                return store;
            if (what.topic == "second")
                return second;
            if (what.topic == "broken")
                throw std::runtime_error("what is this");
            throw error(error_code::not_found, "there is no such tenant");
        },
        how, store.environment());
    port = routed.start();
    const auto status = [&](const std::string& id, const std::string& topic) {
        return post("/hooks/open", {{"ce-id", id}, {"ce-type", topic}}, "x").status;
    };
    EXPECT_EQ(status("1", "first"), 202);
    EXPECT_EQ(status("1", "second"), 202);
    EXPECT_EQ(status("1", "third"), 422);
    EXPECT_EQ(status("1", "broken"), 503);
    EXPECT_THAT(list_inbound(store), SizeIs(1));
    EXPECT_THAT(list_inbound(second), SizeIs(1));
}

// Proves: F21
TEST_F(endpoint_test, options_that_make_no_sense_are_refused)
{
    const std::vector<std::function<void(inbox_endpoint_options&)>> mistakes{
        [](auto& bad) { bad.paths.clear(); },
        [](auto& bad) { bad.paths.at(0).path = "hooks"; },
        [](auto& bad) { bad.paths.at(0).path = "/a b"; },
        [](auto& bad) { bad.paths.at(0).path = "/a?b"; },
        [](auto& bad) { bad.paths.at(0).path = bad.paths.at(1).path; },
        [](auto& bad) { bad.paths.at(0).source.clear(); },
        [](auto& bad) { bad.paths.at(0).secrets.clear(); },
        [](auto& bad) { bad.paths.at(0).secrets.push_back("whsec_!" + endpoint_canary); },
        [](auto& bad) { bad.paths.at(0).unsigned_allowed = true; },
        [](auto& bad) { bad.paths.at(0).topic_wins = true; },
        [](auto& bad) { bad.body_bytes_max = 0; },
        [](auto& bad) { bad.connections_max = 0; },
        [](auto& bad) { bad.request_within = 0s; },
        [](auto& bad) { bad.tolerance = -1s; },
        [](auto& bad) { bad.retry_after = 0s; },
    };
    for (std::size_t i = 0; i < mistakes.size(); ++i) {
        auto bad = options();
        mistakes[i](bad);
        try {
            inbox_endpoint(store, bad);
            ADD_FAILURE() << i;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument) << i;
            EXPECT_THAT(refused.what(), ::testing::Not(HasSubstr(endpoint_canary))) << i;
        }
    }
    EXPECT_THROW(inbox_endpoint(inbox_endpoint::router(), options()), error);
    auto taken = options();
    taken.port = port;
    try {
        inbox_endpoint(store, taken).start();
        ADD_FAILURE();
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), error_code::unavailable);
    }
}

} // namespace
} // namespace posthorn
