// The handler: from a delivery to a letter.
#include "relay/relay_desk.hpp"
#include <posthorn/error.hpp>
#include <posthorn/relay.hpp>

#include <exception>
#include <utility>

namespace posthorn {
namespace {

transport_message message_for(const delivery_view& which, const relay_options& how)
{
    const auto& from = which.message();
    auto result = to_transport(from);
    if (!how.destination.empty())
        result.destination = how.destination.filled(from, which.store());
    if (!how.key.empty())
        result.key = how.key.filled(from, which.store());
    return result;
}

} // namespace

relay_to::relay_to(std::shared_ptr<transport> to, relay_options how)
    : to_(std::move(to)), how_(std::move(how))
{
    if (!to_)
        throw error(error_code::invalid_argument, "a relay needs a transport");
    if (how_.answer_within <= duration::zero() || how_.pause < duration::zero())
        throw error(error_code::invalid_argument,
                    "a relay's answer_within must be more than zero, and its pause not negative");
}

relayed relay_to::operator()(const delivery_view& /*which*/) const
{
    throw error(error_code::internal, "a relay is not called like a function");
}

namespace runtime {

any_handler::asynchronous make_relay(relay_to rule, shared_services& services)
{
    auto desk = services.get<relay_desks>()->of(rule.to(), services.log());
    return [desk, how = rule.how()](const delivery_view& which, any_handler::ended ended) {
        transport_message message;
        try {
            message = message_for(which, how);
        } catch (...) {
            ended(std::current_exception());
            return;
        }
        desk->send({.message = std::move(message),
                    .of = which,
                    .ended = std::move(ended),
                    .pause = how.pause,
                    .answer_within = how.answer_within});
    };
}

} // namespace runtime
} // namespace posthorn
