// A broker that does not behave, or whose bytes come as they rarely do.
#include "checker/scratch_folder.hpp"
#include "transport/rabbitmq/hurried_clock.hpp"
#include "transport/rabbitmq/scripted_broker.hpp"
#include "transport/stubborn.hpp"
#include <posthorn/rabbitmq.hpp>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <latch>
#include <mutex>
#include <netdb.h>
#include <stdexcept>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

class rabbitmq_faults : public ::testing::Test {
protected:
    using answers = std::vector<publish_answer>;

    [[nodiscard]] std::shared_ptr<transport> open(const scripted_broker& to, std::size_t window = 9)
    {
        return open_rabbitmq({.url = to.url(),
                              .window = window,
                              .connection = {.tls = {.verify = false},
                                             .heartbeat = 0s,
                                             .reconnect_min = 60s,
                                             .reconnect_max = 60s}},
                             around());
    }

    /// The system's, with our clock, and ears.
    [[nodiscard]] environment around()
    {
        auto result = hurried_clock::around(time);
        result.log = [this](log_level, std::string_view line) {
            {
                const std::lock_guard lock(mutex_);
                said_.append(line).append("\n");
                told_.notify_all();
            }
            if (line.find("asks to wait") != std::string_view::npos)
                held.wait();
        };
        return result;
    }

    /// On a thread of its own, while the test plays the broker.
    [[nodiscard]] std::future<answers> publish(const std::shared_ptr<transport>& by,
                                               std::size_t many, duration within = 5s,
                                               std::string topic = "q")
    {
        return std::async(std::launch::async, [=, this, seed = ++seed_] {
            const auto what = numbered_messages(many, 1'000, seed, topic);
            return by->publish(what, {.until = time->monotonic() + within});
        });
    }

    static void expect_accepted(std::future<answers> all)
    {
        for (const auto& each : all.get())
            EXPECT_TRUE(each.accepted()) << to_string(each.verdict) << ": " << each.detail;
    }

    static void expect_unknown(std::future<answers> all)
    {
        for (const auto& each : all.get())
            EXPECT_EQ(each.verdict, publish_answer::kind::unknown) << each.detail;
    }

    /// Our side of a channel that the client replaces.
    static void replace_channel(scripted_peer& peer)
    {
        peer.expect(AMQP_CHANNEL_CLOSE_METHOD);
        peer.say({method_frame(1, AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t{})});
        peer.open_channel();
    }

    /// Waits until the client says this.
    void hear(std::string_view words)
    {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(told_.wait_for(lock, 5s, [&] {
            return said_.find(words) != std::string::npos;
        })) << words;
    }

    std::shared_ptr<hurried_clock> time = std::make_shared<hurried_clock>();
    std::latch held{1}; // keeps the client's thread when it is told to wait

private:
    std::mutex mutex_;
    std::condition_variable told_;
    std::string said_;
    std::uint64_t seed_ = 0;
};

/// A key and its certificate in one file.
std::string key_and_certificate(const checker::scratch_folder& folder)
{
    const auto in = "cd " + folder.file("").string() + " && ";
    if (std::system((in + "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=broker "
                          "-keyout key -out certificate 2>log && cat key certificate >both")
                        .c_str()) != 0)
        throw std::runtime_error(folder.read("log"));
    return folder.file("both").string();
}

// Proves: TRN-04
TEST_F(rabbitmq_faults, confirms_that_come_over_tls_in_one_piece_are_all_heard_at_once)
{
    const checker::scratch_folder folder;
    const scripted_broker broker(key_and_certificate(folder));
    const auto way = open(broker, 100);
    auto answered = publish(way, 50);
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD, 50);
    std::vector<std::string> all;
    for (std::uint64_t i = 1; i <= 50; ++i)
        all.push_back(ack_frame(i));
    peer.say(all);
    expect_accepted(std::move(answered));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, an_end_that_comes_over_tls_behind_a_confirm_is_heard_and_so_is_the_confirm)
{
    const checker::scratch_folder folder;
    const scripted_broker broker(key_and_certificate(folder));
    const auto way = open(broker);
    auto answered = publish(way, 1);
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say_and_end({ack_frame(1)});
    expect_accepted(std::move(answered));
    peer.expect_end();
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, frames_too_small_for_anything_are_refused)
{
    for (const std::uint32_t bytes : {1U, 8U, 19U, 20U, 4'095U}) {
        const scripted_broker broker;
        const auto way = open(broker);
        auto peer = broker.accept();
        peer.offer(bytes);
        peer.expect_end();
        hear("frames of " + std::to_string(bytes) + " bytes");
    }
}

// Proves: TRN-01
TEST_F(rabbitmq_faults, frames_may_be_the_smallest_that_are_allowed_or_without_a_limit)
{
    for (const std::uint32_t bytes : {4'096U, 0U, 0xffff'ffffU}) {
        const scripted_broker broker;
        const auto way = open(broker);
        auto answered = publish(way, 3);
        auto peer = broker.accept();
        peer.greet(bytes);
        peer.open_channels();
        peer.expect(AMQP_BASIC_PUBLISH_METHOD, 3);
        peer.say({ack_frame(1), ack_frame(2), ack_frame(3)});
        expect_accepted(std::move(answered));
    }
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, what_cannot_be_part_of_a_message_ends_the_connection)
{
    const std::string none(8, '\0');
    const std::string huge = "\x40" + std::string(7, '\0');
    const std::string flags(2, '\0');
    const std::string connection_class{"\x00\x0a\x00\x00", 4};
    const std::string basic_class{"\x00\x3c\x00\x00", 4};
    for (const auto& header : {connection_class + none + flags, basic_class + huge + flags}) {
        const scripted_broker broker;
        const auto way = open(broker);
        auto answered = publish(way, 1);
        auto peer = broker.accept();
        peer.greet();
        peer.open_channels();
        peer.expect(AMQP_BASIC_PUBLISH_METHOD);
        peer.say({method_frame(1, AMQP_BASIC_RETURN_METHOD, amqp_basic_return_t{}),
                  frame_of(AMQP_FRAME_HEADER, 1, header)});
        peer.expect_end();
        expect_unknown(std::move(answered));
    }
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, a_refusal_for_good_needs_the_channel_to_be_closed_by_the_broker_alone)
{
    const scripted_broker broker;
    const auto way = open(broker);
    auto refused = publish(way, 1);
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({nack_frame(1)});
    EXPECT_EQ(refused.get().at(0).why, refusal::rejected);
    time->advance(2s);
    auto answered = publish(way, 1);
    peer.expect(AMQP_CHANNEL_CLOSE_METHOD); // which crosses one of ours
    peer.say({channel_close_frame(406, "PRECONDITION_FAILED"),
              method_frame(1, AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t{})});
    peer.expect(AMQP_CHANNEL_CLOSE_OK_METHOD);
    peer.open_channel();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({ack_frame(1)});
    expect_accepted(std::move(answered));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, what_was_sent_once_remains_unknown_though_its_second_sending_never_left)
{
    std::future<answers> answered;
    std::shared_ptr<transport> way;
    {
        const scripted_broker broker;
        way = open(broker);
        answered = publish(way, 2, 3s);
        auto peer = broker.accept();
        peer.greet();
        peer.open_channels();
        peer.expect(AMQP_BASIC_PUBLISH_METHOD, 2);
        peer.say({channel_close_frame(406, "PRECONDITION_FAILED")});
        peer.expect(AMQP_CONFIRM_SELECT_METHOD);
        peer.say({method_frame(0, AMQP_CONNECTION_BLOCKED_METHOD, amqp_connection_blocked_t{})});
        hear("asks to wait");
        peer.say({method_frame(0, AMQP_CONNECTION_UNBLOCKED_METHOD, amqp_connection_unblocked_t{}),
                  method_frame(1, AMQP_CHANNEL_OPEN_OK_METHOD, amqp_channel_open_ok_t{}),
                  method_frame(1, AMQP_CONFIRM_SELECT_OK_METHOD, amqp_confirm_select_ok_t{})});
        peer.reset(); // it reads that it may send, and cannot
    }
    held.count_down();
    expect_unknown(std::move(answered));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, messages_without_an_answer_keep_no_others_from_being_sent)
{
    const scripted_broker broker;
    const auto way = open(broker, 2);
    auto first = publish(way, 1, 200ms);
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    expect_unknown(std::move(first));
    auto second = publish(way, 4); // the window is theirs alone
    peer.expect(AMQP_BASIC_PUBLISH_METHOD, 3);
    peer.say({ack_frame(3), ack_frame(2)});
    peer.expect(AMQP_BASIC_PUBLISH_METHOD, 2);
    peer.say({ack_frame(4), ack_frame(5)});
    expect_accepted(std::move(second));
    expect_unknown(publish(way, 1, 200ms));
    auto third = publish(way, 2); // too many are forgotten
    replace_channel(peer);
    peer.expect(AMQP_BASIC_PUBLISH_METHOD, 2);
    peer.say({ack_frame(1), ack_frame(2)});
    expect_accepted(std::move(third));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, a_route_that_is_refused_gets_its_channel_though_another_has_no_answer)
{
    const scripted_broker broker;
    const auto way = open(broker);
    auto refused = publish(way, 1, 5s, "full");
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({nack_frame(1)});
    EXPECT_EQ(refused.get().at(0).why, refusal::rejected);
    expect_unknown(publish(way, 1, 200ms, "silent"));
    time->advance(2s);
    auto answered = publish(way, 1, 5s, "full");
    replace_channel(peer);
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({ack_frame(1)});
    expect_accepted(std::move(answered));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, a_new_channel_is_not_waited_for_while_somebody_hopes_for_an_answer)
{
    const scripted_broker broker;
    const auto way = open(broker);
    auto refused = publish(way, 1, 5s, "full");
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({nack_frame(1)});
    EXPECT_EQ(refused.get().at(0).why, refusal::rejected);
    auto silent = publish(way, 1, 10s, "silent");
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    time->advance(1'100ms);
    auto answered = publish(way, 1, 5s, "other");
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({ack_frame(3)});
    expect_accepted(std::move(answered));
    peer.say({ack_frame(2)});
    expect_accepted(std::move(silent));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, one_that_is_sent_alone_and_gets_no_answer_lets_the_next_go)
{
    const scripted_broker broker;
    const auto way = open(broker);
    auto short_of_time = publish(way, 1, 1s);
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    auto patient = publish(way, 1, 8s);
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({channel_close_frame(406, "PRECONDITION_FAILED")});
    peer.open_channel();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD); // the first, alone, and without an answer
    expect_unknown(std::move(short_of_time));
    replace_channel(peer);
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({ack_frame(1)});
    expect_accepted(std::move(patient));
}

// Proves: TRN-02
TEST_F(rabbitmq_faults, one_whose_time_ends_while_its_channel_is_replaced_is_told_what_is_missing)
{
    const scripted_broker broker;
    const auto way = open(broker);
    auto refused = publish(way, 1, 5s, "full");
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({nack_frame(1)});
    EXPECT_EQ(refused.get().at(0).why, refusal::rejected);
    time->advance(2s);
    auto waiting = publish(way, 1, 300ms, "full");
    peer.expect(AMQP_CHANNEL_CLOSE_METHOD); // and the broker does not say that it is closed
    const auto answer = waiting.get().at(0);
    EXPECT_EQ(answer.why, refusal::unavailable);
    EXPECT_EQ(answer.detail, "the broker has not closed the channel that is to be replaced");
}

// -------------------------------------------------------------------------------------- the feed

void begin_deliveries(scripted_peer& peer)
{
    peer.greet();
    peer.expect(AMQP_BASIC_CONSUME_METHOD);
    peer.say({method_frame(1, AMQP_CHANNEL_OPEN_OK_METHOD, amqp_channel_open_ok_t{}),
              method_frame(1, AMQP_QUEUE_DECLARE_OK_METHOD, amqp_queue_declare_ok_t{}),
              method_frame(1, AMQP_BASIC_QOS_OK_METHOD, amqp_basic_qos_ok_t{}),
              method_frame(1, AMQP_BASIC_CONSUME_OK_METHOD, amqp_basic_consume_ok_t{})});
}

// Proves: INB-05
TEST_F(rabbitmq_faults, deliveries_whose_numbers_do_not_grow_end_the_connection)
{
    const auto delivery = [](std::uint64_t number) {
        amqp_basic_deliver_t method{};
        method.delivery_tag = number;
        return method_frame(1, AMQP_BASIC_DELIVER_METHOD, method) +
               frame_of(AMQP_FRAME_HEADER, 1, std::string("\x00\x3c", 2) + std::string(12, '\0'));
    };
    for (const std::uint64_t second : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        const scripted_broker broker;
        const auto from =
            open_rabbitmq_feed({.url = broker.url(),
                                .queue = "q",
                                .accept_without_id = true,
                                .connection = {.reconnect_min = 60s, .reconnect_max = 60s}},
                               around());
        auto peer = broker.accept();
        begin_deliveries(peer);
        peer.say({delivery(1)});
        EXPECT_EQ(from->receive(1, {.until = time->monotonic() + 10s}).size(), 1U);
        peer.say({delivery(second)});
        peer.expect_end();
    }
}

// Proves: INB-05
TEST_F(rabbitmq_faults, a_feed_that_breaks_as_soon_as_it_is_there_rests_also_with_two_addresses)
{
    const scripted_broker broker;
    const auto from = open_rabbitmq_feed({.url = broker.url() + "," + broker.url(),
                                          .queue = "q",
                                          .connection = {.reconnect_min = 200ms}},
                                         around());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 5; ++i) {
        auto peer = broker.accept();
        begin_deliveries(peer);
        peer.say({method_frame(1, AMQP_BASIC_CANCEL_METHOD, amqp_basic_cancel_t{})});
        peer.expect_end();
    }
    // After the second and the third at least 100 ms each, after the fourth 200.
    EXPECT_GE(std::chrono::steady_clock::now() - start, 400ms);
}

} // namespace
} // namespace posthorn::test

// ---------------------------------------------------------------------------- names of two places

namespace {

constexpr const char* two_places = "two-places.test";

} // namespace

// Takes the place of the system's for this program, and gives one name two addresses.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* wanted,
                           addrinfo** result)
{
    using function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
    static const auto real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    if (name == nullptr || std::string_view(name) != two_places)
        return real(name, service, wanted, result);
    addrinfo* second = nullptr;
    if (const auto failed = real("127.0.0.2", service, wanted, result); failed != 0)
        return failed;
    const auto failed = real("127.0.0.1", service, wanted, &second);
    (*result)->ai_next = second;
    return failed;
}

namespace posthorn::test {
namespace {

// Proves: TRN-02
TEST_F(rabbitmq_faults, an_address_that_never_answers_leaves_time_for_the_next_one)
{
    const scripted_broker broker;
    // Listens, and has no room left: the system drops whoever knocks.
    const socket full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto place = loopback_or("127.0.0.2", broker.port());
    ASSERT_EQ(::bind(full.number(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    ASSERT_EQ(::listen(full.number(), 0), 0);
    const auto in_the_way = connected_socket(place);
    const auto way = open_rabbitmq(
        {.url = "amqp://" + std::string(two_places) + ":" + std::to_string(broker.port()),
         .connection = {.connect_within = 2s, .reconnect_min = 60s, .reconnect_max = 60s}},
        around());
    auto answered = publish(way, 1, 9s);
    auto peer = broker.accept();
    peer.greet();
    peer.open_channels();
    peer.expect(AMQP_BASIC_PUBLISH_METHOD);
    peer.say({ack_frame(1)});
    expect_accepted(std::move(answered));
}

} // namespace
} // namespace posthorn::test
