// A delivery that nobody claimed.
#include "runtime/running_delivery.hpp"
#include <posthorn/testing/sample_delivery.hpp>

#include <utility>

namespace posthorn::testing {

sample_delivery::sample_delivery(message what, int attempt, const enqueue_options& how)
    : running_(std::make_shared<runtime::running_delivery>())
{
    auto& made = running_->message;
    made.receipt.id = how.id.value_or(message_id{});
    made.topic = std::move(what.topic);
    made.payload = std::move(what.payload);
    made.ordering_key = how.ordering_key;
    made.correlation_id = how.correlation_id;
    made.causation_id = how.causation_id;
    made.headers = how.headers;
    made.priority = how.priority;
    made.attempt = attempt;
    made.started = true;
}

delivery_view sample_delivery::view() const
{
    return delivery_view(running_);
}

void sample_delivery::ask_to_stop() const
{
    running_->stop.request_stop();
}

void sample_delivery::lose() const
{
    running_->lost = true;
    running_->stop.request_stop();
}

} // namespace posthorn::testing
