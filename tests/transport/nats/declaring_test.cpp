// A transport that makes its stream, on a server that has none.
#include "hang_limit.hpp"
#include "transport/feed_steps.hpp"
#include "transport/load.hpp"
#include "transport/nats/jetstream.hpp"
#include <posthorn/error.hpp>
#include <posthorn/nats.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class nats_declaring : public ::testing::Test {
protected:
    ~nats_declaring() override { server_.remove_stream(stream_); }

    [[nodiscard]] std::shared_ptr<transport> open(nats_declaration what)
    {
        auto around = environment::system();
        around.log = [this](log_level, std::string_view line) {
            const std::lock_guard lock(mutex_);
            lines_.emplace_back(line);
        };
        return open_nats({.url = fmt::format("nats://127.0.0.1:{}", shared_nats_port()),
                          .declare = std::move(what)},
                         around);
    }

    static publish_answer publish(transport& way, const std::string& topic)
    {
        const auto what = numbered_message(topic, 1);
        return way.publish({&what, 1}).at(0);
    }

    [[nodiscard]] std::vector<std::string> lines()
    {
        const std::lock_guard lock(mutex_);
        return lines_;
    }

    const std::string stream_ = unique_name();
    jetstream server_{shared_nats_port()};

private:
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

// Proves: TRN-01, F7
TEST_F(nats_declaring, the_first_message_finds_a_stream)
{
    const auto way = open({.stream = stream_, .subjects = {stream_ + ".>"}});
    const auto answer = publish(*way, stream_ + ".orders");
    EXPECT_TRUE(answer.accepted()) << answer.detail;
    EXPECT_EQ(server_.messages_in(stream_), 1U);
    EXPECT_THAT(lines(), IsEmpty());
    const auto again = open({.stream = stream_, .subjects = {stream_ + ".>"}});
    EXPECT_TRUE(publish(*again, stream_ + ".orders").accepted());
    EXPECT_THAT(lines(), IsEmpty()) << "it is there as it is wanted";
}

// Proves: TRN-01, F7
TEST_F(nats_declaring, a_stream_that_is_deleted_is_made_again)
{
    const auto way = open({.stream = stream_, .subjects = {stream_ + ".>"}});
    EXPECT_TRUE(publish(*way, stream_ + ".orders").accepted());
    server_.remove_stream(stream_);
    const auto until = std::chrono::steady_clock::now() + test::hang_limit;
    while (!publish(*way, stream_ + ".orders").accepted())
        ASSERT_LT(std::chrono::steady_clock::now(), until);
    EXPECT_EQ(server_.messages_in(stream_), 1U);
}

// Proves: TRN-01, F7
TEST_F(nats_declaring, a_stream_with_other_settings_stays_and_what_it_does_not_take_says_so)
{
    server_.set_stream(stream_, {stream_ + ".orders"});
    const auto way = open({.stream = stream_, .subjects = {stream_ + ".>"}});
    EXPECT_TRUE(publish(*way, stream_ + ".orders").accepted());
    EXPECT_THAT(lines(), Contains(HasSubstr("is not declared: ")));
    const auto answer = publish(*way, stream_ + ".mail");
    EXPECT_EQ(answer.why, refusal::unroutable);
    EXPECT_THAT(answer.detail, HasSubstr("the stream '" + stream_ + "' is not declared: "));
}

// Proves: F21
TEST(nats_declarations, that_no_server_would_make_are_refused_at_once)
{
    const auto why = [](nats_declaration what) {
        try {
            check_nats({.url = "nats://localhost", .declare = std::move(what)});
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            return std::string(refused.what());
        }
        return std::string();
    };
    EXPECT_EQ(why({.stream = "ORDERS", .subjects = {"orders.>"}}), "");
    EXPECT_THAT(why({.stream = "or.ders", .subjects = {"orders.>"}}), HasSubstr("'or.ders'"));
    EXPECT_THAT(why({.stream = "ORDERS", .subjects = {}}), HasSubstr("a subject at least"));
    EXPECT_THAT(why({.stream = "ORDERS", .subjects = {"a"}, .replicas = 6}), HasSubstr("1 to 5"));
}

} // namespace
} // namespace posthorn::transports
