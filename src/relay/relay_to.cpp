// The handler: from a delivery to a letter.
#include "relay/relay_desk.hpp"
#include <posthorn/error.hpp>
#include <posthorn/relay.hpp>

#include <utility>

namespace posthorn {
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
    return [desk, how = std::make_shared<const relay_options>(rule.how())](
               const delivery_view& which, any_handler::ended ended) {
        desk->send({.of = which, .ended = std::move(ended), .how = how});
    };
}

} // namespace runtime
} // namespace posthorn
