// What an endpoint says and does, and what that means for the message.
#include "gate/socket.hpp"
#include "transport/webhook/webhook_under_test.hpp"
#include <posthorn/error.hpp>
#include <posthorn/testing/manual_clock.hpp>
#include <posthorn/testing/seeded_random.hpp>
#include <posthorn/webhook.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <set>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ending = test::http_reply::ending;
using kind = publish_answer::kind;
using test::http_request;
using test::http_sink;
using test::reply;

// Stands wherever a secret can, and must not be in anything that people see.
constexpr auto canary = "canary-Zq7hT3vXw9";

class webhook : public ::testing::Test {
protected:
    webhook_options options(const http_sink& to)
    {
        return {.url = to.url("/hooks/" + std::string(canary) + "?token=" + canary),
                .secrets = {std::string("secret ") + canary},
                .headers = {{"Authorization", std::string("Bearer ") + canary}},
                .allow_private = {"127.0.0.0/8"}};
    }
    environment world()
    {
        auto result = environment::system();
        result.clock = clock;
        result.log = [this](log_level level, std::string_view line) {
            const std::lock_guard lock(mutex);
            log += std::string(line) + "\n";
            if (level != log_level::debug)
                lines.emplace_back(line);
        };
        return result;
    }
    transport_message make(std::string payload = "hello", std::string key = {})
    {
        return {.id = message_id(uuid::version_7(timestamp{1s}, random)),
                .topic = "orders",
                .key = std::move(key),
                .payload = std::move(payload)};
    }
    publish_answer send(transport& to, const transport_message& what,
                        const time_limit& how_long = {})
    {
        auto answer = to.publish({&what, 1}, how_long).at(0);
        EXPECT_THAT(answer.detail, Not(HasSubstr(canary)));
        return answer;
    }
    static monotonic_time in(duration length)
    {
        return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
    }
    // Of what was logged, without what is told at debug.
    std::size_t count_of(std::string_view words) const
    {
        return static_cast<std::size_t>(std::ranges::count_if(
            lines, [&](const std::string& each) { return each.find(words) != std::string::npos; }));
    }
    void TearDown() override
    {
        const std::lock_guard lock(mutex);
        EXPECT_THAT(log, Not(HasSubstr(canary)));
    }

    std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
    testing::seeded_random random{7};
    std::mutex mutex;
    std::string log;
    std::vector<std::string> lines;
};

// Proves: TRN-01
TEST_F(webhook, a_request_is_a_cloud_event_with_all_headers_of_the_message)
{
    http_sink sink([](const auto&) { return reply(202); });
    const auto hooks = open_webhook(options(sink), world());
    auto what = make("{}", "customer 7");
    what.headers = {{"posthorn-corr-id", "ordér 7"},
                    {"lang", "de DE"},
                    {"percent", "100%25"},
                    {"quote", " \"x\" "},
                    {"empty", ""}};
    ASSERT_TRUE(send(*hooks, what).accepted());
    const auto got = sink.requests().at(0);
    EXPECT_EQ(got.method, "POST");
    EXPECT_THAT(got.path, HasSubstr("/hooks/canary"));
    EXPECT_EQ(got.body, "{}");
    EXPECT_EQ(got.headers.at("content-type"), "application/json");
    EXPECT_EQ(got.headers.at("user-agent"), "posthorn");
    EXPECT_EQ(got.headers.at("authorization"), std::string("Bearer ") + canary);
    EXPECT_EQ(got.headers.at("webhook-timestamp"), "1800000000");
    EXPECT_EQ(got.headers.at("ce-specversion"), "1.0");
    EXPECT_EQ(got.headers.at("ce-type"), "orders");
    EXPECT_EQ(got.headers.at("ce-id"), to_string(what.id));
    EXPECT_EQ(got.headers.at("ce-source"), "posthorn");
    EXPECT_EQ(got.headers.at("ce-partitionkey"), "customer%207");
    EXPECT_EQ(got.headers.at("posthorn-key"), "customer 7");
    EXPECT_EQ(got.headers.at("posthorn-corr-id"), "ord%C3%A9r%207");
    EXPECT_EQ(got.headers.at("lang"), "de DE");
    EXPECT_EQ(got.headers.at("percent"), "100%2525");
    EXPECT_EQ(got.headers.at("posthorn-encoded"), "empty,percent,posthorn-corr-id,quote");
    auto back = test::message_in(got);
    EXPECT_EQ(back.headers.erase("content-type"), 1U);
    EXPECT_EQ(back.headers, what.headers);
    EXPECT_EQ(back.key, what.key);
}

// Proves: TRN-01
TEST_F(webhook, a_header_that_http_cannot_carry_is_malformed)
{
    http_sink sink([](const auto&) { return reply(200); });
    const auto hooks = open_webhook(options(sink), world());
    const std::vector<headers> impossible{
        {{"two words", "x"}},        {{"größe", "x"}},
        {{"colon:", "x"}},           {{"Lang", "de"}, {"lang", "en"}},
        {{"Content-Length", "7"}},   {{"transfer-encoding", "chunked"}},
        {{"Host", "other.example"}}, {{"webhook-signature", "v1,x"}},
        {{"posthorn-encoded", "x"}}};
    for (const auto& each : impossible) {
        auto what = make();
        what.headers = each;
        EXPECT_EQ(send(*hooks, what).why, refusal::malformed) << each.begin()->first;
    }
    EXPECT_EQ(sink.connections(), 0U);
}

// Proves: TRN-01, TRN-02, F7
TEST_F(webhook, each_status_has_its_meaning)
{
    std::atomic<int> status = 0;
    http_sink sink([&](const auto&) { return reply(status, "some words"); });
    auto how = options(sink);
    how.failures_max = 1'000;
    const auto hooks = open_webhook(how, world());
    const std::vector<std::pair<std::vector<int>, refusal>> table{
        {{200, 201, 202, 204, 299}, refusal::none},
        {{410}, refusal::gone},
        {{300, 301, 302, 303, 304, 307, 308}, refusal::declined},
        {{401, 403, 404, 405, 407}, refusal::declined},
        {{400, 402, 406, 411, 413, 415, 418, 421, 422, 431, 451}, refusal::declined},
        {{408, 409, 423, 425, 500, 501, 502, 503, 504, 507, 599}, refusal::rejected},
        {{429}, refusal::busy}};
    for (const auto& [codes, why] : table)
        for (const int code : codes) {
            status = code;
            const auto answer = send(*hooks, make());
            EXPECT_EQ(answer.accepted(), why == refusal::none) << code;
            EXPECT_EQ(to_string(answer.why), to_string(why)) << code;
            EXPECT_NE(answer.verdict, kind::unknown) << code;
            if (!answer.accepted()) {
                EXPECT_THAT(answer.detail, HasSubstr(std::to_string(code)));
            }
            if (code >= 400) {
                EXPECT_THAT(answer.detail, HasSubstr("some words"));
            }
        }
}

// Proves: TRN-01
TEST_F(webhook, the_words_of_an_endpoint_are_cut_and_cleaned_and_never_our_own)
{
    std::string body;
    http_sink sink([&](const http_request& got) {
        if (body == "echo")
            return reply(400, "you sent: " + got.body);
        if (body == "path")
            return reply(400, "Cannot POST " + got.path);
        if (body == "credentials")
            return reply(400, got.headers.at("authorization"));
        return reply(400, body);
    });
    const auto hooks = open_webhook(options(sink), world());
    const auto detail = [&](std::string said, std::string payload = "the payload") {
        body = std::move(said);
        return send(*hooks, make(std::move(payload))).detail;
    };
    EXPECT_THAT(detail("wrong\r\n\tfield \x1b[31m'a'\n"), HasSubstr(": wrong field [31m'a'"));
    EXPECT_LT(detail(std::string(100'000, 'x')).size(), 500U);
    EXPECT_THAT(detail("\xff\xfe no text"), Not(HasSubstr("no text")));
    EXPECT_THAT(detail("echo", "a payload of somebody"), Not(HasSubstr("somebody")));
    EXPECT_THAT(detail("echo", "tiny"), Not(HasSubstr("tiny")));
    EXPECT_THAT(detail("path"), Not(HasSubstr("canary")));
    EXPECT_THAT(detail("credentials"), Not(HasSubstr("canary")));
}

// Proves: TRN-02, F6
TEST_F(webhook, who_asks_for_time_gets_it_and_meanwhile_nobody_knocks)
{
    std::atomic<int> status = 429;
    http_sink sink(
        [&](const auto&) { return reply(status, "", status == 200 ? "" : "Retry-After: 30\r\n"); });
    const auto hooks = open_webhook(options(sink), world());
    for (const int code : {429, 503}) {
        status = code;
        const auto first = send(*hooks, make());
        EXPECT_EQ(first.verdict, kind::refused);
        EXPECT_EQ(first.why, refusal::busy);
        EXPECT_EQ(first.retry_in, 30s);
        const auto before = sink.requests().size();
        clock->advance(10s);
        const auto second = send(*hooks, make());
        EXPECT_EQ(second.why, refusal::busy);
        EXPECT_EQ(second.retry_in, 20s);
        EXPECT_FALSE(hooks->wait_until_ready({.until = in(10ms)}));
        EXPECT_EQ(sink.requests().size(), before);
        clock->advance(20s);
    }
    status = 200;
    EXPECT_TRUE(send(*hooks, make()).accepted());
    status = 429;
    clock->advance(1h);
    auto how = options(sink);
    how.retry_after_max = 7s;
    EXPECT_EQ(send(*open_webhook(how, world()), make()).retry_in, 7s);
}

// Proves: TRN-02, F5
TEST_F(webhook, an_endpoint_that_fails_is_left_alone_and_then_tried_with_one_message)
{
    std::atomic<bool> is_well = false;
    http_sink sink([&](const auto&) { return reply(is_well ? 200 : 500); });
    http_sink other([&](const auto&) { return reply(200); });
    auto how = options(sink);
    how.failures_max = 3;
    how.parallel_per_endpoint = 1;
    how.pause_min = 10s;
    const auto hooks = open_webhook(how, world());
    std::vector<transport_message> some;
    for (int i = 0; i < 10; ++i)
        some.push_back(make());
    auto answers = hooks->publish(some);
    EXPECT_EQ(sink.requests().size(), 3U);
    EXPECT_EQ(answers.at(2).why, refusal::rejected);
    for (std::size_t i = 3; i < 10; ++i) {
        EXPECT_EQ(answers.at(i).verdict, kind::refused);
        EXPECT_EQ(answers.at(i).why, refusal::unavailable);
        EXPECT_GE(answers.at(i).retry_in.value(), 5s);
        EXPECT_LE(answers.at(i).retry_in.value(), 10s);
    }
    // Others do not suffer for it.
    auto elsewhere = make();
    elsewhere.destination = other.url();
    EXPECT_TRUE(send(*hooks, elsewhere).accepted());

    clock->advance(10s);
    answers = hooks->publish(some);
    EXPECT_EQ(sink.requests().size(), 4U) << "one message tried it, the rest saw that it failed";
    EXPECT_EQ(answers.at(0).why, refusal::rejected);
    EXPECT_GE(answers.at(9).retry_in.value(), 10s);

    clock->advance(20s);
    is_well = true;
    for (const auto& each : hooks->publish(some))
        EXPECT_TRUE(each.accepted());
    EXPECT_EQ(sink.requests().size(), 14U);
    const std::lock_guard lock(mutex);
    EXPECT_THAT(log, AllOf(HasSubstr("left alone"), HasSubstr("answers again")));
}

// Proves: OPS-04
TEST_F(webhook, that_an_endpoint_is_left_alone_is_told_once_and_so_is_its_end)
{
    std::atomic<bool> is_well = false;
    http_sink sink([&](const auto&) { return reply(is_well ? 200 : 500); });
    http_sink gone([&](const auto&) { return reply(500); });
    http_sink other([&](const auto&) { return reply(200); });
    std::vector<std::pair<std::string, bool>> told;
    auto how = options(sink);
    how.failures_max = 2;
    how.pause_min = 10s;
    how.on_endpoint = [&](const std::string& endpoint, bool is_left) {
        const std::lock_guard lock(mutex);
        told.emplace_back(endpoint, is_left);
    };
    auto hooks = open_webhook(how, world());
    const auto send_to = [&](const http_sink& where) {
        auto what = make();
        what.destination = where.url(std::string("/") + canary);
        (void)send(*hooks, what);
    };
    const auto next = [&] {
        const std::lock_guard lock(mutex);
        return std::exchange(told, {});
    };
    const auto place = [](const http_sink& of) {
        return "http://127.0.0.1:" + std::to_string(of.port());
    };
    using list = std::vector<std::pair<std::string, bool>>;

    for (int i = 0; i < 10; ++i)
        send_to(sink);
    EXPECT_EQ(next(), (list{{place(sink), true}}));
    for (int i = 0; i < 5; ++i) {
        clock->advance(5min);
        send_to(sink);
    }
    EXPECT_EQ(next(), list{}) << "a trial that fails is no news";
    clock->advance(5min);
    is_well = true;
    send_to(sink);
    EXPECT_EQ(next(), (list{{place(sink), false}}));

    // Nobody wants to send there any more.
    send_to(gone);
    send_to(gone);
    EXPECT_EQ(next(), (list{{place(gone), true}}));
    clock->advance(50min);
    send_to(other);
    EXPECT_EQ(next(), list{});
    clock->advance(11min);
    send_to(other);
    send_to(other); // what is unused is forgotten after each round, at the latest before the next
    EXPECT_EQ(next(), (list{{place(gone), false}}));

    // Nor when the transport ends.
    send_to(gone);
    send_to(gone);
    EXPECT_EQ(next(), (list{{place(gone), true}}));
    hooks.reset();
    EXPECT_EQ(next(), (list{{place(gone), false}}));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(count_of("left alone"), 3U);
    EXPECT_EQ(count_of("answers again"), 1U);
    EXPECT_EQ(count_of("is forgotten"), 1U);
}

// Proves: TRN-02, F5
TEST_F(webhook, without_anybody_there_it_is_unavailable_and_never_sent)
{
    const auto nobody = test::bound_socket(0); // and does not listen
    webhook_options how{.allow_private = {"127.0.0.0/8"}, .failures_max = 1};
    const auto hooks = open_webhook(how, world());
    auto what = make();
    what.destination = "http://127.0.0.1:" + std::to_string(test::port_of(nobody)) + "/" + canary;
    auto answer = send(*hooks, what);
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::unavailable);
    EXPECT_FALSE(answer.retry_in);
    answer = send(*hooks, what);
    EXPECT_EQ(answer.why, refusal::unavailable);
    EXPECT_TRUE(answer.retry_in);
    what.destination = "http://no-such-host.invalid/";
    EXPECT_EQ(send(*hooks, what).why, refusal::unavailable);
    what.destination.clear();
    EXPECT_EQ(send(*hooks, what).why, refusal::unroutable);
    EXPECT_TRUE(hooks->wait_until_ready({})) << "there is no usual place to wait for";
    EXPECT_EQ(hooks->name(), "webhook");
}

// Proves: TRN-02, F6
TEST_F(webhook, what_was_sent_and_got_no_answer_is_unknown)
{
    http_sink breaking([](const auto&) { return test::http_reply{.then = ending::reset}; });
    EXPECT_EQ(send(*open_webhook(options(breaking), world()), make()).verdict, kind::unknown);
    http_sink closing([](const auto&) { return test::http_reply{.then = ending::close}; });
    EXPECT_EQ(send(*open_webhook(options(closing), world()), make()).verdict, kind::unknown);
    http_sink nonsense([](const auto&) {
        return test::http_reply{.bytes = "SSH-2.0-OpenSSH\r\n", .then = ending::close};
    });
    EXPECT_EQ(send(*open_webhook(options(nonsense), world()), make()).verdict, kind::unknown);
    http_sink silent([](const auto&) { return test::http_reply{.then = ending::silence}; });
    auto how = options(silent);
    how.answer_within = 100ms;
    const auto answer = send(*open_webhook(how, world()), make());
    EXPECT_EQ(answer.verdict, kind::unknown);
    EXPECT_THAT(answer.detail, HasSubstr("http://127.0.0.1"));
}

// Proves: TRN-01
TEST_F(webhook, a_status_counts_even_if_its_body_is_endless_or_breaks_off)
{
    http_sink endless([](const auto&) {
        return test::http_reply{.bytes = "HTTP/1.1 200 OK\r\n\r\n" + std::string(1'000'000, 'x'),
                                .then = ending::silence};
    });
    EXPECT_TRUE(send(*open_webhook(options(endless), world()), make()).accepted());
    http_sink broken([](const auto&) {
        return test::http_reply{.bytes = "HTTP/1.1 404 X\r\nContent-Length: 50\r\n\r\nhalf",
                                .then = ending::close};
    });
    EXPECT_EQ(send(*open_webhook(options(broken), world()), make()).why, refusal::declined);
}

// Proves: TRN-04
TEST_F(webhook, a_slow_endpoint_holds_up_nobody_else)
{
    http_sink slow([](const auto&) { return test::http_reply{.then = ending::silence}; });
    http_sink quick([](const auto&) { return reply(200); });
    auto how = options(quick);
    how.parallel_per_endpoint = 2;
    const auto hooks = open_webhook(how, world());
    std::vector<transport_message> some;
    for (int i = 0; i < 40; ++i) {
        some.push_back(make());
        if (i % 2 == 0)
            some.back().destination = slow.url();
    }
    std::stop_source enough;
    std::vector<publish_answer> answers;
    std::jthread publishing([&] { answers = hooks->publish(some, {.stop = enough.get_token()}); });
    EXPECT_EQ(quick.requests(20).size(), 20U) << "all of them, while the slow one says nothing";
    EXPECT_EQ(slow.requests(2).size(), 2U);
    enough.request_stop();
    publishing.join();
    std::size_t unknown = 0;
    std::size_t accepted = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
        if (i % 2 == 1) {
            accepted += answers.at(i).accepted() ? 1 : 0;
            continue;
        }
        unknown += answers.at(i).verdict == kind::unknown ? 1 : 0;
        EXPECT_FALSE(answers.at(i).accepted());
        EXPECT_FALSE(is_permanent(answers.at(i).why));
    }
    EXPECT_GE(accepted, 18U) << "all whose answer had the time to come";
    EXPECT_EQ(unknown, 2U) << "what was never sent is refused";
}

// Proves: TRN-04
TEST_F(webhook, connections_are_used_again_and_are_no_more_than_allowed)
{
    http_sink sink([](const auto&) { return reply(200, "thanks"); });
    auto how = options(sink);
    how.parallel_per_endpoint = 3;
    const auto hooks = open_webhook(how, world());
    for (int i = 0; i < 5; ++i) {
        std::vector<transport_message> some;
        for (int j = 0; j < 40; ++j)
            some.push_back(make());
        for (const auto& each : hooks->publish(some))
            EXPECT_TRUE(each.accepted());
    }
    EXPECT_EQ(sink.requests().size(), 200U);
    EXPECT_LE(sink.connections(), 3U);
}

// Proves: TRN-04
TEST_F(webhook, messages_go_at_once_as_many_as_allowed)
{
    std::barrier all_there(4);
    http_sink sink([&](const auto&) {
        all_there.arrive_and_wait(); // only so many at once let each other go
        return reply(200);
    });
    auto how = options(sink);
    how.parallel_per_endpoint = 4;
    const auto hooks = open_webhook(how, world());
    std::vector<transport_message> some;
    for (int i = 0; i < 8; ++i)
        some.push_back(make());
    for (const auto& each : hooks->publish(some))
        EXPECT_TRUE(each.accepted());
}

// Proves: TRN-04
TEST_F(webhook, one_message_of_a_key_is_under_way_at_a_time_and_a_failure_holds_back_the_rest)
{
    std::mutex guard;
    std::multiset<std::string> inside;
    bool overlapped = false;
    http_sink sink([&](const http_request& got) {
        const auto key = got.headers.at("posthorn-key");
        {
            const std::lock_guard lock(guard);
            inside.insert(key);
            overlapped |= inside.count(key) > 1;
        }
        std::this_thread::yield();
        const std::lock_guard lock(guard);
        inside.erase(inside.find(key));
        return reply(got.body == "bad 5" ? 500 : got.body == "worse 3" ? 400 : 200);
    });
    const auto hooks = open_webhook(options(sink), world());
    std::vector<transport_message> some;
    for (int i = 0; i < 10; ++i)
        for (const std::string key : {"good", "bad", "worse", "fine"})
            some.push_back(make(key + " " + std::to_string(i), key));
    const auto answers = hooks->publish(some);
    EXPECT_FALSE(overlapped);
    for (std::size_t i = 0; i < some.size(); ++i) {
        const auto number = i / 4;
        const auto& key = some[i].key;
        const auto last = key == "bad" ? 5U : key == "worse" ? 3U : 10U;
        if (number < last)
            EXPECT_TRUE(answers.at(i).accepted()) << some[i].payload;
        else if (number == last)
            EXPECT_EQ(answers.at(i).why, key == "bad" ? refusal::rejected : refusal::declined);
        else
            EXPECT_EQ(answers.at(i).why, refusal::held_back) << some[i].payload;
    }
    EXPECT_EQ(sink.requests().size(), 30U);
}

TEST_F(webhook, the_usual_headers_go_to_the_usual_host_alone)
{
    http_sink usual([](const auto&) { return reply(200); });
    http_sink other([](const auto&) { return reply(200); });
    const auto hooks = open_webhook(options(usual), world());
    auto what = make();
    what.destination = usual.url("/elsewhere");
    EXPECT_TRUE(send(*hooks, what).accepted());
    EXPECT_TRUE(usual.requests().at(0).headers.contains("authorization"));
    what.destination = other.url("/");
    EXPECT_TRUE(send(*hooks, what).accepted());
    EXPECT_FALSE(other.requests().at(0).headers.contains("authorization"));
}

// Proves: TRN-01, F21
TEST_F(webhook, its_name_and_its_errors_show_no_more_of_a_url_than_the_host)
{
    http_sink sink([](const auto&) { return reply(500, "no"); });
    const auto hooks = open_webhook(options(sink), world());
    EXPECT_EQ(hooks->name(), "webhook http://127.0.0.1:" + std::to_string(sink.port()) + "/…");
    EXPECT_THAT(send(*hooks, make(canary)).detail, HasSubstr("127.0.0.1"));
    const std::vector<std::function<void(webhook_options&)>> mistakes{
        [](auto& bad) { bad.allow_private.clear(); },
        [](auto& bad) { bad.url = std::string("http://user:") + canary + "@example.com/"; },
        [](auto& bad) { bad.url = std::string("ftp://example.com/") + canary; },
        [](auto& bad) { bad.url = std::string("http://exa mple.com/") + canary; },
        [](auto& bad) { bad.secrets.push_back(std::string("whsec_!") + canary); },
        [](auto& bad) { bad.headers["X"] = std::string("ü") + canary; },
        [](auto& bad) { bad.headers["Host"] = canary; },
        [](auto& bad) { bad.url.clear(); },
        [](auto& bad) { bad.answer_within = 0s; },
        [](auto& bad) { bad.connect_within = -1s; },
        [](auto& bad) { bad.pause_max = 1ms; },
        [](auto& bad) { bad.parallel = 0; },
        [](auto& bad) { bad.parallel_per_endpoint = 0; },
        [](auto& bad) { bad.failures_max = 0; },
        [](auto& bad) { bad.payload_bytes_max = 0; },
        [](auto& bad) { bad.content_type = "text\n"; },
        [](auto& bad) { bad.source.clear(); },
        [](auto& bad) { bad.key_file = "key.pem"; },
        [](auto& bad) { bad.allow_private = {"everything"}; },
    };
    for (std::size_t i = 0; i < mistakes.size(); ++i) {
        auto bad = options(sink);
        mistakes[i](bad);
        try {
            (void)open_webhook(bad, world());
            ADD_FAILURE() << i;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument) << i;
            EXPECT_THAT(refused.what(), Not(HasSubstr(canary))) << i;
        }
    }
}

// Proves: TRN-02
TEST_F(webhook, closing_waits_for_what_is_under_way)
{
    std::atomic<bool> may_leave = false;
    http_sink sink([&](const auto&) {
        may_leave.wait(false);
        return reply(200);
    });
    const auto hooks = open_webhook(options(sink), world());
    publish_answer answer;
    std::jthread publishing([&] { answer = send(*hooks, make()); });
    (void)sink.requests(1);
    hooks->close({.until = in(20ms)});
    EXPECT_EQ(send(*hooks, make()).why, refusal::closed);
    may_leave = true;
    may_leave.notify_all();
    hooks->close();
    publishing.join();
    EXPECT_TRUE(answer.accepted());
}

} // namespace
} // namespace posthorn
