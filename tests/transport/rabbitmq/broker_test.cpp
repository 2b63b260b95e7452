// What needs a broker of one's own: its alarms, its limits, its certificates and its death.
#include "gate/socket.hpp"
#include "transport/rabbitmq/plain_client.hpp"
#include "transport/rabbitmq/private_broker.hpp"
#include "transport/stubborn.hpp"
#include <posthorn/rabbitmq.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

monotonic_time after(duration length)
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
}

transport_message letter_number(std::uint64_t seed, std::size_t bytes = 5)
{
    testing::seeded_random random{seed};
    return {.id = message_id(uuid::version_7(timestamp{1s}, random)),
            .topic = "q",
            .payload = std::string(bytes, 'x')};
}

// Proves: TRN-01, TRN-02, F6
TEST(rabbitmq_alarms, are_waited_for_and_limits_are_met_with_a_refusal)
{
    private_broker broker("'max_message_size = 50000'");
    plain_client client(broker.port());
    client.declare_queue("q");
    const auto way = open_rabbitmq({.url = broker.url()});

    const std::vector some{letter_number(1), letter_number(2, 50'001), letter_number(3),
                           letter_number(4, 50'000)};
    const auto limited = way->publish(some);
    EXPECT_EQ(limited.at(1).why, refusal::too_large) << limited.at(1).detail;
    EXPECT_TRUE(limited.at(0).accepted() && limited.at(2).accepted() && limited.at(3).accepted());

    // A broker blocks who publishes while it is short of memory, so some may still be accepted.
    broker.control("set_vm_memory_high_watermark absolute 1MB");
    publish_answer answer;
    const auto patience = after(60s);
    for (std::uint64_t seed = 10; answer.why != refusal::busy && after(0s) < patience; ++seed) {
        const auto what = letter_number(seed);
        answer = way->publish({&what, 1}, {.until = after(200ms)}).at(0);
    }
    EXPECT_EQ(answer.why, refusal::busy);
    EXPECT_THAT(answer.detail, HasSubstr("memory"));
    EXPECT_FALSE(is_permanent(answer.why));
    EXPECT_FALSE(way->wait_until_ready({.until = after(10ms)}));
    std::jthread later([&] { broker.control("set_vm_memory_high_watermark absolute 2GB"); });
    const auto what = letter_number(1'000);
    EXPECT_TRUE(way->publish({&what, 1}, {.until = after(60s)}).at(0).accepted());
    EXPECT_TRUE(way->wait_until_ready({.until = after(60s)}));
}

// Proves: TRN-02, TRN-04, F5
TEST(rabbitmq_brokers, may_be_killed_under_load_and_nothing_is_lost)
{
    private_broker broker;
    plain_client(broker.port()).declare_queue("q");
    std::vector<std::vector<transport_message>> sent;
    for (std::uint64_t seed : {1U, 2U})
        sent.push_back(numbered_messages(2'500, 25, seed, "q"));
    const auto way = open_rabbitmq({.url = broker.url(), .connection = {.reconnect_max = 500ms}});
    std::atomic<std::size_t> unknown = 0;
    {
        std::vector<std::jthread> publishers;
        for (const auto& mine : sent)
            publishers.emplace_back(
                [&] { unknown += publish_stubbornly(*way, mine, 200, 120s).unknown; });
        plain_client look(broker.port());
        const auto patience = after(120s);
        while (look.depth("q") < 1'000)
            ASSERT_LT(after(0s), patience);
        broker.kill();
        broker.start();
    }
    plain_client client(broker.port());
    arrivals got;
    while (auto next = client.get("q"))
        got.add(next->message_id, next->headers["posthorn-key"], next->body);
    EXPECT_EQ(got.missing(sent[0]), 0U);
    EXPECT_EQ(got.missing(sent[1]), 0U);
    EXPECT_EQ(got.different(), 5'000U);
    RecordProperty("unknown", std::to_string(unknown));
}

class rabbitmq_tls : public ::testing::Test {
protected:
    rabbitmq_tls()
    {
        // For the broker's user, who may be another.
        std::filesystem::permissions(folder_.file(""), std::filesystem::perms::owner_all |
                                                           std::filesystem::perms::others_read |
                                                           std::filesystem::perms::others_exec);
        folder_.write("san", "subjectAltName=IP:127.0.0.1,DNS:broker.example\n");
        make("req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=authority -keyout ca.key "
             "-out ca.pem");
        for (const std::string who : {"broker", "client"}) {
            make("req -newkey rsa:2048 -nodes -subj /CN=" + who + " -keyout " + who + ".key -out " +
                 who + ".csr");
            make("x509 -req -days 30 -in " + who +
                 ".csr -CA ca.pem -CAkey ca.key -CAcreateserial "
                 "-extfile san -out " +
                 who + ".pem");
        }
        for (const auto& each : std::filesystem::directory_iterator(folder_.file("")))
            std::filesystem::permissions(each, std::filesystem::perms::others_read,
                                         std::filesystem::perm_options::add);
    }

    void make(const std::string& words) const
    {
        const auto command =
            "cd " + folder_.file("").string() + " && openssl " + words + " >>log 2>&1";
        if (std::system(command.c_str()) != 0)
            throw std::runtime_error("failed: " + command + "\n" + folder_.read("log"));
    }

    [[nodiscard]] std::string file(const char* name) const { return folder_.file(name).string(); }

    [[nodiscard]] std::string configuration(std::uint16_t port) const
    {
        return "'listeners.ssl.1 = 127.0.0.1:" + std::to_string(port) +
               "' 'ssl_options.cacertfile = " + file("ca.pem") +
               "' 'ssl_options.certfile = " + file("broker.pem") +
               "' 'ssl_options.keyfile = " + file("broker.key") +
               "' 'ssl_options.verify = verify_peer' 'ssl_options.fail_if_no_peer_cert = true'";
    }

private:
    checker::scratch_folder folder_;
};

// Proves: TRN-01
TEST_F(rabbitmq_tls, both_sides_prove_who_they_are)
{
    const auto tls_port = port_of(bound_socket(0));
    private_broker broker(configuration(tls_port));
    plain_client client(broker.port());
    client.declare_queue("q");
    const auto url = "amqps://guest:guest@127.0.0.1:" + std::to_string(tls_port);
    const rabbitmq_connection::tls_options right{
        .ca_file = file("ca.pem"), .certificate = file("client.pem"), .key = file("client.key")};
    const auto open = [&](const rabbitmq_connection::tls_options& how) {
        return open_rabbitmq({.url = url, .connection = {.tls = how}});
    };

    const auto all = numbered_messages(1'000, 100, 1, "q");
    const auto way = open(right);
    for (const auto& each : way->publish(all, {.until = after(60s)}))
        EXPECT_TRUE(each.accepted()) << each.detail;
    const auto large = letter_number(5, 3'000'000);
    EXPECT_TRUE(way->publish({&large, 1}, {.until = after(60s)}).at(0).accepted());
    arrivals got;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (auto next = client.get("q"))
            got.add(next->message_id, next->headers["posthorn-key"], next->body);
    EXPECT_EQ(got.missing(all), 0U);
    const auto from = open_rabbitmq_feed({.url = url, .queue = "q", .connection = {.tls = right}});
    const auto fed = from->receive(1, {.until = after(60s)});
    ASSERT_EQ(fed.size(), 1U);
    EXPECT_EQ(fed[0].payload, large.payload);

    const auto refused = [&](const rabbitmq_connection::tls_options& how, const char* why) {
        const auto stranger = open(how);
        publish_answer answer;
        for (const auto patience = after(60s); after(0s) < patience;) {
            answer = stranger->publish({&all[0], 1}, {.until = after(50ms)}).at(0);
            if (answer.detail.find(why) != std::string::npos)
                break;
        }
        EXPECT_EQ(answer.why, refusal::unavailable);
        EXPECT_THAT(answer.detail, HasSubstr(why));
    };
    auto trusting_nobody_we_know = right;
    trusting_nobody_we_know.ca_file.clear();
    refused(trusting_nobody_we_know, "certificate of 127.0.0.1");
    refused({.ca_file = file("ca.pem")}, "alert");
    refused({.ca_file = "/nowhere/ca.pem"}, "/nowhere/ca.pem");
    auto not_looking = trusting_nobody_we_know;
    not_looking.verify = false;
    EXPECT_TRUE(open(not_looking)->publish({&all[0], 1}, {.until = after(60s)}).at(0).accepted());
}

} // namespace
} // namespace posthorn::test
