// Whoever reaches the port can send anything, without end, as slowly as they like: it costs a
// bounded number of bytes, a bounded time and a bounded number of files.
#include "endpoint/endpoint_fixture.hpp"
#include "hang_limit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string chunked = "POST /hooks/open HTTP/1.1\r\nwebhook-id: 1\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n";

class endpoint_strangers : public endpoint_test {
protected:
    // How much of it is taken before the connection is cut off. What the kernel holds between the
    // two is part of it.
    static constexpr std::size_t bytes_sent_max = std::size_t{64} << 20U;
    std::size_t taken_of_endless(const std::string& beginning, const std::string& piece) const
    {
        test::http_client client(port);
        client.send(beginning);
        std::string many;
        while (many.size() < (std::size_t{64} << 10U))
            many += piece;
        std::size_t total = 0;
        while (total < bytes_sent_max && client.send(many))
            total += many.size();
        return total;
    }

    // Sends a byte again and again, each well within the time for one, until somebody answers.
    std::string answer_to_a_drip(const std::string& beginning) const
    {
        test::http_client client(port);
        client.send(beginning);
        const auto began = std::chrono::steady_clock::now();
        while (!client.hears_within(20ms) &&
               std::chrono::steady_clock::now() - began < test::hang_limit)
            client.send("x");
        EXPECT_LT(std::chrono::steady_clock::now() - began, test::hang_limit);
        return client.read_all();
    }

    void listen_with(const inbox_endpoint_options& how)
    {
        other.emplace(store, how);
        port = other->start();
    }

    void wait_until(const std::function<bool()>& is_so) const
    {
        const auto began = std::chrono::steady_clock::now();
        while (!is_so()) {
            ASSERT_LT(std::chrono::steady_clock::now() - began, test::hang_limit);
            std::this_thread::yield();
        }
    }

    std::optional<inbox_endpoint> other;
};

std::size_t open_files()
{
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

int listening_at(std::uint16_t port)
{
    for (int each = 3; each < 1'000; ++each) {
        int listens = 0;
        socklen_t length = sizeof listens;
        sockaddr_in where{};
        socklen_t size = sizeof where;
        if (::getsockopt(each, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0 &&
            ::getsockname(each, reinterpret_cast<sockaddr*>(&where), &size) == 0 &&
            where.sin_port == htons(port))
            return each;
    }
    return -1;
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_body_whose_end_is_not_clear_is_refused_and_not_stored)
{
    const std::string begin = "POST /hooks/open HTTP/1.1\r\nwebhook-id: 1\r\n";
    for (const std::string lines : {"Content-Length: 1\r\nContent-Length: 2\r\n",
                                    "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
                                    "Transfer-Encoding: xchunked\r\n"}) {
        test::http_client client(port);
        client.send(begin + lines + "\r\n1\r\nx\r\n0\r\n\r\n");
        EXPECT_THAT(client.read_all(), ::testing::StartsWith("HTTP/1.1 400 ")) << lines;
    }
    EXPECT_EQ(count_messages(store).ready, 0);
}

// Proves: INB-05
TEST_F(endpoint_strangers, what_never_ends_is_cut_off)
{
    constexpr std::size_t much = std::size_t{32} << 20U;
    EXPECT_LT(taken_of_endless("POST /", "x"), much) << "a request line";
    EXPECT_LT(taken_of_endless("POST /hooks/open HTTP/1.1\r\nX: ", "x"), much) << "a header";
    EXPECT_LT(taken_of_endless("POST /hooks/open HTTP/1.1\r\n", "a: b\r\n"), much) << "headers";
    EXPECT_LT(taken_of_endless("POST /hooks/open HTTP/1.1\r\n", "\n"), much) << "lines";
    EXPECT_LT(taken_of_endless(chunked, "0"), much) << "the size of a chunk";
    EXPECT_LT(taken_of_endless(chunked + "1;", "x"), much) << "what is behind the size of a chunk";
    EXPECT_LT(taken_of_endless(chunked, "1\r\nx\r\n"), much) << "chunks";
    EXPECT_LT(taken_of_endless("POST /hooks/open HTTP/1.1\r\n\r\n", "x"), much) << "no length";
    EXPECT_LT(
        taken_of_endless("GET /hooks/open HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", "x"),
        much)
        << "what nobody reads";
    EXPECT_THAT(list_inbound(store), IsEmpty());
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_head_has_as_many_lines_and_bytes_as_are_sensible)
{
    test::header_lines lines{{"webhook-id", "1"}};
    for (int i = 0; i < 90; ++i)
        lines.emplace_back("X-" + std::to_string(i), "some");
    EXPECT_EQ(post("/hooks/open", lines, "{}").status, 202);
    for (int i = 0; i < 10; ++i)
        lines.emplace_back("Y-" + std::to_string(i), "more");
    EXPECT_EQ(post("/hooks/open", lines, "{}").status, 431);
    lines = {{"webhook-id", "2"}};
    for (int i = 0; i < 10; ++i)
        lines.emplace_back("X-" + std::to_string(i), std::string(7'000, 'x'));
    EXPECT_EQ(post("/hooks/open", lines, "{}").status, 431);
}

// Proves: INB-05
TEST_F(endpoint_strangers, nobody_multiplies_an_answer)
{
    std::string ranges = "bytes=0-";
    while (ranges.size() < 8'000)
        ranges += ",0-";
    const auto one = ask("GET / HTTP/1.1\r\n\r\n").text.size();
    EXPECT_EQ(ask("GET / HTTP/1.1\r\nRange: " + ranges + "\r\n\r\n").text.size(), one);
    EXPECT_EQ(ask("GET / HTTP/1.1\r\nrAnGe:" + ranges + "\r\n\r\n").text.size(), one);
}

// Proves: INB-05
TEST_F(endpoint_strangers, one_time_is_for_all_of_a_request)
{
    auto how = options();
    how.request_within = 300ms;
    listen_with(how);
    EXPECT_THAT(answer_to_a_drip("POST /hooks/open HTTP/1.1\r\nX: "), HasSubstr("408"));
    EXPECT_THAT(answer_to_a_drip("POST /hooks/open HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"),
                AllOf(HasSubstr("408"), HasSubstr("took too long")));
    // What nobody wants to read is not waited for any longer.
    EXPECT_THAT(answer_to_a_drip("POST /hooks/open HTTP/1.1\r\nContent-Encoding: gzip\r\n"
                                 "Content-Length: 100000\r\n\r\n"),
                HasSubstr("415"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_body_without_a_length_ends_with_what_its_sender_says)
{
    test::http_client client(port);
    client.send("POST /hooks/open HTTP/1.1\r\nwebhook-id: 1\r\n\r\n{}");
    client.say_no_more();
    EXPECT_THAT(client.read_all(), HasSubstr("202"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, stopping_cuts_off_what_is_still_being_sent)
{
    auto how = options();
    how.request_within = 10min;
    listen_with(how);
    test::http_client silent(port);
    test::http_client head(port);
    head.send("POST /hooks/open HTTP/1.1\r\n");
    test::http_client body(port);
    body.send("POST /hooks/open HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    EXPECT_TRUE(body.hears_within(30s)); // so its body is being waited for
    const auto began = std::chrono::steady_clock::now();
    other->stop();
    EXPECT_LT(std::chrono::steady_clock::now() - began, test::hang_limit);
    EXPECT_EQ(silent.read_all(), "");
    EXPECT_EQ(head.read_all(), "");
    // A refusal for good would kill the message.
    EXPECT_THAT(body.read_all(), AllOf(HasSubstr("503"), HasSubstr("Retry-After")));
    EXPECT_FALSE(other->is_listening());
}

// Proves: INB-05
TEST_F(endpoint_strangers, no_more_are_accepted_while_requests_end)
{
    listen_with(options());
    test::http_client begun(port);
    begun.send("POST /hooks/open HTTP/1.1\r\nwebhook-id: 1\r\nExpect: 100-continue\r\n"
               "Content-Length: 2\r\n\r\n");
    EXPECT_TRUE(begun.hears_within(30s));
    other->stop_accepting();
    EXPECT_FALSE(other->is_listening());
    EXPECT_THROW(test::http_client{port}, std::system_error);
    begun.send("{}");
    EXPECT_THAT(begun.read_all(), HasSubstr("202"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, those_who_say_nothing_take_few_files)
{
    auto how = options();
    how.connections_max = 2;
    listen_with(how);
    const auto before = open_files();
    std::deque<test::http_client> idle;
    for (int i = 0; i < 50; ++i)
        idle.emplace_back(port);
    // Those who ask are answered, and of those who say nothing only so many are kept.
    idle.back().send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_THAT(idle.back().read_all(), HasSubstr("404"));
    EXPECT_LE(open_files(), before + idle.size() + how.connections_max * 16);
}

// Proves: INB-05, OPS-04
TEST_F(endpoint_strangers, who_keeps_silent_makes_room_for_who_asks)
{
    auto how = options();
    how.connections_max = 3;
    how.request_within = 5min;
    listen_with(how);
    // This one is being served: its body is on the way.
    test::http_client slow(port);
    slow.send("POST /hooks/open HTTP/1.1\r\nwebhook-id: slow\r\nExpect: 100-continue\r\n"
              "Content-Length: 2\r\n\r\n");
    EXPECT_TRUE(slow.hears_within(30s));
    std::deque<test::http_client> idle;
    const auto began = std::chrono::steady_clock::now();
    for (const std::string said :
         {"", "POST /hooks/open HTTP/1.1\r\nX: ", "GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"}) {
        for (int i = 0; i < 5; ++i) {
            idle.emplace_back(port);
            idle.back().send(said);
        }
        EXPECT_EQ(post("/hooks/open", {{"webhook-id", "quick" + said.substr(0, 3)}}, "{}").status,
                  202);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, 1min);
    slow.send("{}");
    EXPECT_THAT(slow.read_all(), HasSubstr("202"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, many_slow_bodies_delay_no_other_message)
{
    auto how = options();
    how.request_within = 5min;
    listen_with(how);
    const std::array<std::string, 4> slow{
        "POST /hooks/open HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf",
        "POST /hooks/open HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "POST /hooks/open HTTP/1.1\r\n\r\nhalf", "POST /hooks/open HTTP/1.1\r\nX: "};
    std::deque<test::http_client> senders;
    for (std::size_t i = 0; i < 300; ++i) {
        senders.emplace_back(port);
        senders.back().send(slow.at(i % slow.size()));
    }
    // Each of them would keep a thread for five minutes.
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(post("/hooks/open", {{"webhook-id", std::to_string(i)}}, "{}").status, 202);
    EXPECT_LT(std::chrono::steady_clock::now() - began, test::hang_limit);
    // The first have made room for those that came later, which may still end.
    senders.back().send("\r\nContent-Length: 0\r\n\r\n");
    EXPECT_THAT(senders.back().read_all(), HasSubstr("HTTP/1.1 "));
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_body_that_is_announced_too_large_keeps_no_thread)
{
    auto how = options();
    how.connections_max = 1;
    how.request_within = 5min;
    listen_with(how);
    std::deque<test::http_client> senders;
    for (int i = 0; i < 20; ++i) {
        senders.emplace_back(port);
        senders.back().send("POST /hooks/open HTTP/1.1\r\nContent-Length: 9000000\r\n\r\nx");
    }
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, "{}").status, 202);
    EXPECT_THAT(senders.back().read_all(), HasSubstr("413"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, chunks_that_make_no_sense_keep_no_thread)
{
    auto how = options();
    how.connections_max = 1;
    how.request_within = 5min;
    listen_with(how);
    const std::string begin = "POST /hooks/open HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const std::string what : {"0x10\r\n", "-1\r\n", "+5\r\nhello", "ffffffffffffffff\r\n",
                                   " 5\r\nhello", "0\r\nTrailer: x\r\n", "\r\n"})
        EXPECT_THAT(ask(begin + what).text, HasSubstr("400")) << what;
}

// Proves: INB-05
TEST_F(endpoint_strangers, the_network_that_takes_most_gives_way)
{
    auto how = options();
    how.connections_max = 1;
    how.request_within = 5min;
    listen_with(how);
    // An honest one that is slow, and comes from elsewhere.
    test::http_client honest(port, "127.0.0.2");
    honest.send("POST /hooks/open HTTP/1.1\r\nwebhook-id: honest\r\nContent-Length: 2\r\n\r\n{");
    std::deque<test::http_client> greedy;
    for (int i = 0; i < 100; ++i) {
        greedy.emplace_back(port);
        greedy.back().send("POST /hooks/open HTTP/1.1\r\nContent-Length: 2\r\n\r\n{");
    }
    EXPECT_EQ(greedy.front().read_all(), "") << "the oldest of the many goes first";
    honest.send("}");
    EXPECT_THAT(honest.read_all(), HasSubstr("202"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, who_keeps_silent_may_stay_while_nobody_else_comes)
{
    auto how = options();
    how.connections_max = 1;
    how.request_within = 5min;
    listen_with(how);
    test::http_client quiet(port);
    EXPECT_FALSE(quiet.hears_within(300ms)) << "nobody needs its place";
    quiet.send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_THAT(quiet.read_all(), HasSubstr("404"));
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_socket_that_breaks_is_replaced)
{
    listen_with(options());
    EXPECT_TRUE(other->is_listening());
    ASSERT_EQ(::shutdown(listening_at(port), SHUT_RDWR), 0);
    const auto has_told = [&] { // and then does not listen until it has a new one
        return std::ranges::any_of(store.log(), [](const auto& line) {
            return line.find("cannot accept connections") != std::string::npos;
        });
    };
    wait_until([&] { return has_told() && other->is_listening(); });
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, "{}").status, 202);
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_line_break_that_is_encoded_in_a_header_is_no_line_break_of_ours)
{
    const auto said = post(
        "/hooks/open",
        {{"webhook-id", "1"}, {"X", "a%0D%0ASet-Cookie: b"}, {"Origin", "a%0D%0ASet-Cookie: b"}},
        "{}");
    EXPECT_THAT(said.text, ::testing::Not(HasSubstr("Set-Cookie")));
    for (const auto& each : list_inbound(store)) {
        const auto stored = find_message(store, each.message.value()).value().headers;
        for (const auto& [name, value] : stored)
            EXPECT_THAT(value, ::testing::Not(HasSubstr("\n"))) << name;
    }
}

// Proves: INB-05
TEST_F(endpoint_strangers, a_long_path_is_refused_before_it_is_matched)
{
    for (const std::size_t bytes : {1'000U, 2'000U, 30'000U}) {
        const auto path = "/" + std::string(bytes, 'a');
        EXPECT_EQ(ask("POST " + path + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n").status / 100, 4);
    }
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, "{}").status, 202);
}

// Proves: INB-05
TEST_F(endpoint_strangers, headers_that_speak_for_the_connection_change_nothing)
{
    EXPECT_EQ(post("/hooks/open",
                   {{"webhook-id", "1"},
                    {"REMOTE_ADDR", "10.0.0.1"},
                    {"LOCAL_ADDR", "10.0.0.1"},
                    {"REMOTE_PORT", "1"},
                    {"X-Forwarded-For", ","},
                    {"Accept", "a;q=nan,,;"},
                    {"Content-Type", "multipart"}},
                   "{}")
                  .status,
              202);
}

// Proves: INB-05
TEST_F(endpoint_strangers, trouble_that_comes_and_goes_is_told_once)
{
    listen_with(options());
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    for (int i = 0; i < 10; ++i) {
        const int each = ::socket(AF_INET, SOCK_STREAM, 0);
        auto none_left = usual;
        none_left.rlim_cur = 0;
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
        test::connect(each, port);
        wait_until([&] { return !other->is_listening(); });
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
        wait_until([&] { return other->is_listening(); });
        ::close(each);
    }
    const auto lines = store.log();
    EXPECT_LE(std::ranges::count_if(
                  lines,
                  [](const auto& line) { return line.find("cannot accept") != std::string::npos; }),
              2);
}

// Proves: INB-05
TEST_F(endpoint_strangers, who_comes_while_no_file_is_left_is_served_later)
{
    listen_with(options());
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    const int later = ::socket(AF_INET, SOCK_STREAM, 0);
    auto none_left = usual;
    none_left.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
    test::connect(later, port);
    wait_until([&] { return !other->is_listening(); });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    wait_until([&] { return other->is_listening(); });
    EXPECT_THAT(store.log(), Contains(HasSubstr("cannot accept connections")));
    ::close(later);
    EXPECT_EQ(post("/hooks/open", {{"webhook-id", "1"}}, "{}").status, 202);
}

} // namespace
} // namespace posthorn
