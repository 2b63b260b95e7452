// A transport that makes its exchange and its queue, on a broker that has neither.
#include "hang_limit.hpp"
#include "transport/rabbitmq/plain_client.hpp"
#include <posthorn/error.hpp>
#include <posthorn/rabbitmq.hpp>
#include <posthorn/testing/seeded_random.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class rabbitmq_declaring : public ::testing::Test {
protected:
    ~rabbitmq_declaring() override
    {
        client_.delete_queue(queue_);
        client_.delete_exchange(exchange_);
    }

    [[nodiscard]] rabbitmq_options options(rabbitmq_declaration what) const
    {
        return {.url = fmt::format("amqp://guest:guest@127.0.0.1:{}", rabbitmq_port()),
                .exchange = exchange_,
                .declare = std::move(what)};
    }

    std::shared_ptr<transport> open(rabbitmq_options how)
    {
        auto around = environment::system();
        around.log = [this](log_level, std::string_view line) {
            const std::lock_guard lock(mutex_);
            lines_.emplace_back(line);
        };
        return open_rabbitmq(std::move(how), around);
    }

    publish_answer publish(transport& way, const std::string& topic)
    {
        const transport_message what{
            .id = message_id(uuid::version_7(timestamp{1'700'000'000s}, random_)),
            .topic = topic,
            .payload = topic};
        return way.publish({&what, 1}).at(0);
    }

    /// Until the answer is yes: what is gone may be made once a second.
    [[nodiscard]] bool is_accepted_soon(transport& way, const std::string& topic)
    {
        const auto until = std::chrono::steady_clock::now() + hang_limit;
        while (!publish(way, topic).accepted())
            if (std::chrono::steady_clock::now() > until)
                return false;
        return true;
    }

    [[nodiscard]] std::vector<std::string> lines()
    {
        const std::lock_guard lock(mutex_);
        return lines_;
    }

    const std::string exchange_ = unique_name("declared");
    const std::string queue_ = unique_name("declared-queue");
    plain_client client_{rabbitmq_port()};

private:
    testing::seeded_random random_{7};
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

// Proves: TRN-01, F7
TEST_F(rabbitmq_declaring, the_first_message_finds_an_exchange_and_a_queue)
{
    const auto way = open(options({.queue = queue_, .binding = "orders.#"}));
    const auto answer = publish(*way, "orders.placed");
    EXPECT_TRUE(answer.accepted()) << answer.detail;
    EXPECT_EQ(publish(*way, "mail.welcome").why, refusal::unroutable) << "it is not bound for that";
    const auto got = client_.get(queue_);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->exchange, exchange_);
    EXPECT_EQ(got->body, "orders.placed");
    EXPECT_FALSE(client_.get(queue_));
    EXPECT_THAT(lines(), IsEmpty());
}

// Proves: TRN-01
TEST_F(rabbitmq_declaring, a_queue_without_an_exchange_is_reached_by_its_name)
{
    auto how = options({.queue = queue_, .quorum = false});
    how.exchange = {};
    const auto way = open(std::move(how));
    EXPECT_TRUE(publish(*way, queue_).accepted());
    EXPECT_TRUE(client_.get(queue_));
}

// Proves: TRN-01, F7
TEST_F(rabbitmq_declaring, what_is_deleted_is_made_again)
{
    const auto way = open(options({.queue = queue_}));
    EXPECT_TRUE(publish(*way, "orders").accepted());
    client_.delete_queue(queue_);
    EXPECT_TRUE(is_accepted_soon(*way, "orders"));
    client_.delete_exchange(exchange_);
    EXPECT_TRUE(is_accepted_soon(*way, "orders"));
}

// Proves: TRN-01
TEST_F(rabbitmq_declaring, what_is_there_with_other_properties_is_used_as_it_is_and_the_log_says_so)
{
    client_.declare_exchange(exchange_, "fanout");
    client_.declare_queue(queue_);
    client_.bind(queue_, exchange_, "");
    const auto way = open(options({.exchange_type = "topic", .queue = queue_}));
    EXPECT_TRUE(publish(*way, "orders").accepted());
    EXPECT_TRUE(client_.get(queue_));
    EXPECT_THAT(lines(), Contains(HasSubstr("PRECONDITION_FAILED")));
}

// Proves: TRN-01, F7
TEST_F(rabbitmq_declaring, a_message_that_is_unroutable_says_why_nothing_was_declared)
{
    const auto way = open(options({.queue = queue_, .binding = "orders"}));
    EXPECT_TRUE(publish(*way, "orders").accepted());
    const auto other = open(options({.exchange_type = "direct", .queue = queue_}));
    const auto answer = publish(*other, "unbound");
    EXPECT_EQ(answer.why, refusal::unroutable);
    EXPECT_THAT(answer.detail, HasSubstr("it is not declared: 406 PRECONDITION_FAILED"));
}

// Proves: F21
TEST(rabbitmq_declarations, that_no_broker_would_make_are_refused_at_once)
{
    const auto why = [](const std::string& exchange, rabbitmq_declaration what) {
        try {
            check_rabbitmq({.url = "amqp://localhost", .exchange = exchange, .declare = what});
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            return std::string(refused.what());
        }
        return std::string();
    };
    EXPECT_EQ(why("shop", {}), "");
    EXPECT_EQ(why("", {.queue = "q"}), "");
    EXPECT_THAT(why("", {}), HasSubstr("an exchange or a queue with a name"));
    EXPECT_THAT(why("shop", {.exchange_type = "topics"}), HasSubstr("'topics'"));
    EXPECT_THAT(why("shop", {.queue = "amq.mine"}), HasSubstr("'amq.'"));
    EXPECT_THAT(why("shop", {.queue = std::string(256, 'q')}), HasSubstr("255"));
}

} // namespace
} // namespace posthorn::test
