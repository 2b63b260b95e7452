// The life of a desk: whoever holds it last may be a letter on its way.
#include "relay/relay_desk.hpp"
#include "runtime/running_delivery.hpp"
#include "transport/broker_model.hpp"

#include <gtest/gtest.h>

#include <future>

namespace posthorn::runtime {
namespace {

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
    transport_message order;
    order.topic = "orders";
    // As a handler's answer holds the worker, and that the desk.
    auto ended = [desk, may_end = let_go.get_future().share()](const any_handler::end&) {
        may_end.wait();
    };
    desk->send({.message = std::move(order),
                .of = delivery_view(std::make_shared<running_delivery>()),
                .ended = std::move(ended),
                .pause = {},
                .answer_within = std::chrono::seconds{30}});
    desk.reset();
    let_go.set_value();
    EXPECT_NE(told.get_future().get(), std::this_thread::get_id());
}

} // namespace
} // namespace posthorn::runtime
