// The life of a desk: whoever holds it last may be a letter on its way.
#include "relay/relay_desk.hpp"
#include "runtime/running_delivery.hpp"
#include "transport/broker_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// Proves: TRN-01, I21
TEST(relay_desks, may_end_on_a_thread_of_their_own)
{
    const auto broker = transports::make_broker_model();
    broker->listen("orders");
    std::promise<std::thread::id> told;
    std::promise<void> let_go;
    std::shared_ptr<relay_desk> desk(new relay_desk(broker->open()), [&](relay_desk* which) {
        delete which;
        told.set_value(std::this_thread::get_id());
    });
    const auto running = std::make_shared<running_delivery>();
    running->message.topic = "orders";
    // As a handler's answer holds the worker, and that the desk.
    auto ended = [desk, may_end = let_go.get_future().share()](const any_handler::end&) {
        may_end.wait();
    };
    desk->send({.of = delivery_view(running),
                .ended = std::move(ended),
                .how = std::make_shared<relay_options>()});
    desk.reset();
    let_go.set_value();
    EXPECT_NE(told.get_future().get(), std::this_thread::get_id());
}

// Far away, or slow: it needs its time to find out whether the other side is there.
class slow_to_find final : public transport {
public:
    using transport::close;
    using transport::publish;

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& /*how_long*/) override
    {
        return std::vector(what.size(), publish_answer::yes());
    }

    bool wait_until_ready(const time_limit& how_long) override
    {
        const auto found_at = std::chrono::steady_clock::now() + 400ms;
        const auto until = std::chrono::steady_clock::time_point(*how_long.until);
        std::unique_lock lock(mutex_);
        changed_.wait_until(lock, how_long.stop, std::min(found_at, until), [] { return false; });
        return found_at <= until;
    }

    void close(const time_limit& /*how_long*/) override {}
    transport_capabilities capabilities() const override { return {}; }
    std::string name() const override { return "slow"; }

private:
    std::mutex mutex_;
    std::condition_variable_any changed_;
};

// Proves: TRN-02
TEST(relay_desks, give_a_transport_more_and_more_time_to_find_the_other_side)
{
    std::promise<outcome> told;
    relay_desk desk(std::make_shared<slow_to_find>());
    desk.send({.of = delivery_view(std::make_shared<running_delivery>()),
               .ended = [&](const any_handler::end& said) { told.set_value(std::get<0>(said)); },
               .how = std::make_shared<relay_options>()});
    auto said = told.get_future();
    ASSERT_EQ(said.wait_for(20s), std::future_status::ready);
    EXPECT_EQ(said.get().verdict, outcome::kind::done);
}

} // namespace
} // namespace posthorn::runtime
