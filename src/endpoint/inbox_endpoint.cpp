// The reception with a server in front of it.
#include "endpoint/http_server.hpp"
#include "endpoint/reception.hpp"
#include <posthorn/inbox_endpoint.hpp>

#include <utility>

namespace posthorn {

struct inbox_endpoint::state {
    state(router where, inbox_endpoint_options options, environment world)
        : desk(std::move(where), std::move(options), std::move(world)), server(desk)
    {}

    endpoint::reception desk;
    endpoint::http_server server; // last: it calls into the reception
};

inbox_endpoint::inbox_endpoint(store where, inbox_endpoint_options options)
    : inbox_endpoint([where](const fed_message&, const std::string&) { return where; },
                     std::move(options), where.environment())
{}

inbox_endpoint::inbox_endpoint(router where, inbox_endpoint_options options, environment world)
    : state_(std::make_unique<state>(std::move(where), std::move(options), std::move(world)))
{}

inbox_endpoint::~inbox_endpoint() = default;

std::uint16_t inbox_endpoint::start()
{
    return state_->server.start();
}

bool inbox_endpoint::is_listening() const noexcept
{
    return state_->server.is_listening();
}

void inbox_endpoint::stop_accepting()
{
    state_->server.stop_accepting();
}

void inbox_endpoint::stop()
{
    state_->server.stop();
}

feed_report inbox_endpoint::report() const
{
    return state_->desk.report();
}

} // namespace posthorn
