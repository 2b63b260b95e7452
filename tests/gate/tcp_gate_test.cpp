// The gate, between clients of this test and a server that answers every line with the same line.
#include "gate/socket.hpp"
#include "gate/tcp_gate.hpp"
#include "hang_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int patience_ms = std::chrono::milliseconds{hang_limit}.count();

/// What one read gives: bytes, "" for a close, or the word "reset".
std::string read_some(const socket& from)
{
    pollfd watched{from.number(), POLLIN, 0};
    if (::poll(&watched, 1, patience_ms) != 1)
        return "silence";
    std::array<char, 4096> buffer{};
    const auto got = ::recv(from.number(), buffer.data(), buffer.size(), 0);
    return got < 0 ? "reset" : std::string(buffer.data(), static_cast<std::size_t>(got));
}

void write_all(const socket& to, std::string_view bytes)
{
    while (!bytes.empty()) {
        pollfd watched{to.number(), POLLOUT, 0};
        ::poll(&watched, 1, patience_ms);
        const auto taken = ::send(to.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (taken < 0 && errno == EAGAIN)
            continue;
        if (taken < 0)
            return;
        bytes.remove_prefix(static_cast<std::size_t>(taken));
    }
}

/// Answers each line with itself, and remembers it.
class echo_server {
public:
    echo_server() : listener_(listening_socket(0)), thread_([this](const auto& stop) { run(stop); })
    {}

    [[nodiscard]] std::uint16_t port() const { return port_of(listener_); }

    [[nodiscard]] std::vector<std::string> lines() const
    {
        const std::lock_guard lock(mutex_);
        return lines_;
    }
    /// Whether connections have ended, each in its way: "" or "reset".
    [[nodiscard]] bool has_seen_end(const std::string& how) const
    {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, hang_limit, [&] {
            return std::find(ends_.begin(), ends_.end(), how) != ends_.end();
        });
    }

private:
    struct client {
        socket where;
        std::string unfinished = {};
        bool over = false;
    };

    void run(const std::stop_token& stop)
    {
        std::list<client> clients;
        while (!stop.stop_requested()) {
            std::vector<pollfd> watched{{listener_.number(), POLLIN, 0}};
            for (const auto& each : clients)
                watched.push_back({each.where.number(), POLLIN, 0});
            ::poll(watched.data(), watched.size(), 5); // 5 ms: until the end of the test is noticed
            while (auto taken = accepted_socket(listener_))
                clients.push_back({std::move(*taken)});
            for (auto& each : clients)
                serve(each);
            clients.remove_if([](const auto& each) { return each.over; });
        }
    }

    void serve(client& who)
    {
        std::array<char, 4096> buffer{};
        const auto got = ::recv(who.where.number(), buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == EAGAIN)
            return;
        const std::lock_guard lock(mutex_);
        if (got <= 0) {
            who.over = true;
            ends_.emplace_back(got == 0 ? "" : "reset");
            changed_.notify_all();
            return;
        }
        who.unfinished.append(buffer.data(), static_cast<std::size_t>(got));
        for (auto end = who.unfinished.find('\n'); end != std::string::npos;
             end = who.unfinished.find('\n')) {
            lines_.push_back(who.unfinished.substr(0, end));
            write_all(who.where, who.unfinished.substr(0, end + 1));
            who.unfinished.erase(0, end + 1);
        }
    }

    socket listener_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::vector<std::string> lines_;
    std::vector<std::string> ends_;
    std::jthread thread_; // last: it uses everything above
};

class tcp_gate_between : public ::testing::Test {
protected:
    std::optional<socket> connect()
    {
        return connected_socket(loopback_or("127.0.0.1", gate.port()));
    }

    static std::string ask(const socket& who, const std::string& line)
    {
        write_all(who, line + "\n");
        std::string answer;
        while (!answer.ends_with('\n')) {
            const auto more = read_some(who);
            answer += more;
            if (more.empty() || more == "reset" || more == "silence")
                return answer;
        }
        answer.pop_back();
        return answer;
    }

    echo_server server;
    tcp_gate gate{"127.0.0.1", server.port()};
};

TEST_F(tcp_gate_between, everything_passes_and_is_counted)
{
    const auto one = connect().value();
    const auto two = connect().value();
    EXPECT_EQ(ask(one, "hello"), "hello");
    EXPECT_EQ(ask(two, "you"), "you");
    const auto seen = gate.seen();
    EXPECT_EQ(seen.connections, 2U);
    EXPECT_EQ(seen.open, 2U);
    EXPECT_EQ(seen.bytes_to_server, 10U);
    EXPECT_TRUE(gate.wait_for([](const auto& now) { return now.bytes_to_client == 10; }));
    EXPECT_EQ(seen.requests_lost + seen.replies_lost, 0U);
}

TEST_F(tcp_gate_between, much_passes_in_order)
{
    const auto client = connect().value();
    std::string line;
    for (int i = 0; line.size() < 3'000'000; ++i)
        line += std::to_string(i) + ' ';
    std::string answer;
    std::jthread reader([&] {
        while (!answer.ends_with('\n'))
            answer += read_some(client);
    });
    write_all(client, line + '\n');
    reader.join();
    EXPECT_TRUE(answer == line + '\n');
}

TEST_F(tcp_gate_between, a_close_passes_too)
{
    {
        const auto client = connect().value();
        EXPECT_EQ(ask(client, "hello"), "hello");
    }
    EXPECT_TRUE(server.has_seen_end(""));
    EXPECT_TRUE(gate.wait_for([](const auto& now) { return now.open == 0; }));
}

TEST_F(tcp_gate_between, a_reset_passes_too)
{
    auto client = connect().value();
    EXPECT_EQ(ask(client, "hello"), "hello");
    client.close_with_reset();
    EXPECT_TRUE(server.has_seen_end("reset"));
}

TEST_F(tcp_gate_between, cut_connections_end_as_they_are_told_and_new_ones_work)
{
    for (const bool with_reset : {true, false}) {
        const auto one = connect().value();
        const auto two = connect().value();
        EXPECT_EQ(ask(one, "hello"), "hello");
        EXPECT_EQ(ask(two, "hello"), "hello");
        gate.cut(with_reset ? tcp_gate::ending::reset : tcp_gate::ending::close);
        EXPECT_EQ(gate.seen().open, 0U);
        EXPECT_EQ(read_some(one), with_reset ? "reset" : "");
        EXPECT_EQ(read_some(two), with_reset ? "reset" : "");
        EXPECT_TRUE(server.has_seen_end(with_reset ? "reset" : ""));
    }
    EXPECT_EQ(ask(connect().value(), "again"), "again");
}

TEST_F(tcp_gate_between, new_connections_can_be_refused_while_old_ones_work)
{
    const auto old = connect().value();
    EXPECT_EQ(ask(old, "hello"), "hello");
    for (int i = 0; i < 3; ++i) {
        gate.refuse(true);
        EXPECT_FALSE(connect().has_value());
        EXPECT_EQ(ask(old, "still"), "still");
        gate.refuse(false);
        gate.refuse(false);
        EXPECT_EQ(ask(connect().value(), "new"), "new");
    }
}

TEST_F(tcp_gate_between, a_server_that_is_not_there_breaks_the_connection)
{
    const auto nobody = bound_socket(0);
    tcp_gate to_nobody("127.0.0.1", port_of(nobody));
    const auto client = connected_socket(loopback_or("127.0.0.1", to_nobody.port())).value();
    EXPECT_EQ(read_some(client), "reset");
    EXPECT_EQ(to_nobody.seen().connections, 0U);
}

TEST_F(tcp_gate_between, a_stalled_gate_takes_everything_and_passes_nothing_on)
{
    const auto old = connect().value();
    EXPECT_EQ(ask(old, "hello"), "hello");
    gate.stall(true);
    const auto fresh = connect().value();
    EXPECT_TRUE(gate.wait_for([](const auto& now) { return now.connections == 2; }));
    write_all(old, "one\n");
    write_all(fresh, "two\n");
    gate.stall(true); // the gate has been through its loop, and had its chance
    EXPECT_EQ(gate.seen().bytes_to_server, 6U);
    EXPECT_THAT(server.lines(), ElementsAre("hello"));
    gate.stall(false);
    EXPECT_EQ(read_some(old), "one\n");
    EXPECT_EQ(read_some(fresh), "two\n");
}

TEST_F(tcp_gate_between, bytes_can_be_late_in_either_direction)
{
    const auto client = connect().value();
    EXPECT_EQ(ask(client, "hello"), "hello");
    for (const auto which : {tcp_gate::direction::to_server, tcp_gate::direction::to_client}) {
        gate.delay(which, 60ms);
        const auto before = std::chrono::steady_clock::now();
        EXPECT_EQ(ask(client, "late"), "late");
        EXPECT_GE(std::chrono::steady_clock::now() - before, 60ms);
        gate.delay(which, 0ms);
    }
    // What comes later does not overtake.
    gate.delay(tcp_gate::direction::to_server, 60ms);
    write_all(client, "one\n");
    gate.delay(tcp_gate::direction::to_server, 0ms);
    write_all(client, "two\n");
    std::string answers;
    while (answers.size() < 8)
        answers += read_some(client);
    EXPECT_EQ(answers, "one\ntwo\n");
}

TEST_F(tcp_gate_between, a_lost_request_never_reaches_the_server)
{
    for (const bool with_reset : {true, false}) {
        const auto client = connect().value();
        const auto other = connect().value();
        gate.lose_request("COMMIT", with_reset ? tcp_gate::ending::reset : tcp_gate::ending::close);
        EXPECT_EQ(ask(client, "BEGIN"), "BEGIN");
        EXPECT_EQ(ask(client, "COMMIT"), with_reset ? "reset" : "");
        EXPECT_EQ(ask(other, "COMMIT of another"), "COMMIT of another") << "only one is lost";
    }
    EXPECT_THAT(server.lines(),
                ElementsAre("BEGIN", "COMMIT of another", "BEGIN", "COMMIT of another"));
    EXPECT_EQ(gate.seen().requests_lost, 2U);
    EXPECT_EQ(gate.seen().replies_lost, 0U);
}

TEST_F(tcp_gate_between, a_lost_reply_means_that_the_server_has_done_it)
{
    for (const bool with_reset : {true, false}) {
        const auto client = connect().value();
        const auto other = connect().value();
        gate.lose_reply("COMMIT", {},
                        with_reset ? tcp_gate::ending::reset : tcp_gate::ending::close);
        EXPECT_EQ(ask(client, "BEGIN"), "BEGIN");
        EXPECT_EQ(ask(client, "COMMIT"), with_reset ? "reset" : "");
        EXPECT_EQ(ask(other, "COMMIT of another"), "COMMIT of another") << "only one is lost";
    }
    EXPECT_THAT(server.lines(), ElementsAre("BEGIN", "COMMIT", "COMMIT of another", "BEGIN",
                                            "COMMIT", "COMMIT of another"));
    EXPECT_EQ(gate.seen().replies_lost, 2U);
    EXPECT_EQ(gate.seen().requests_lost, 0U);
}

TEST_F(tcp_gate_between, a_request_is_recognised_however_it_is_split)
{
    const auto client = connect().value();
    gate.lose_reply("COMMIT");
    std::size_t sent = 0;
    for (const char each : std::string("xCOMCOMMIT;\n")) {
        write_all(client, std::string(1, each));
        ++sent;
        EXPECT_TRUE(gate.wait_for([&](const auto& now) { return now.bytes_to_server == sent; }));
    }
    EXPECT_EQ(read_some(client), "reset");
    EXPECT_THAT(server.lines(), ElementsAre("xCOMCOMMIT;"));
}

TEST_F(tcp_gate_between, the_answer_that_is_lost_can_be_a_certain_one)
{
    const auto client = connect().value();
    gate.lose_reply("one", "three");
    // The first two answers are swallowed on the way to the third: one connection, one fate.
    write_all(client, "one\n");
    write_all(client, "two\n");
    write_all(client, "three\n");
    EXPECT_EQ(read_some(client), "reset");
    EXPECT_THAT(server.lines(), ElementsAre("one", "two", "three"));
    EXPECT_EQ(gate.seen().replies_lost, 1U);
}

TEST_F(tcp_gate_between, a_planned_loss_can_be_taken_back)
{
    const auto client = connect().value();
    gate.lose_request("COMMIT");
    gate.lose_nothing();
    EXPECT_EQ(ask(client, "COMMIT"), "COMMIT");
    EXPECT_FALSE(gate.wait_for([](const auto& now) { return now.requests_lost > 0; }, 1ms));
}

TEST_F(tcp_gate_between, controls_from_many_threads_do_no_harm)
{
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            for (int n = 0; n < 20; ++n) {
                if (const auto client = connect())
                    (void)ask(*client, "hello");
                if (i % 2 == 0)
                    gate.cut();
                gate.delay(tcp_gate::direction::to_client, std::chrono::milliseconds{n % 2});
                (void)gate.seen();
            }
        });
    threads.clear();
    gate.delay(tcp_gate::direction::to_client, 0ms);
    EXPECT_EQ(ask(connect().value(), "end"), "end");
}

} // namespace
} // namespace posthorn::test
