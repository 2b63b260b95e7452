// What is asked over HTTP, put to the daemon: the only place here that includes cpp-httplib,
// because it compiles slowly.
#include "app/daemon/http_listener.hpp"

#include "http/server.hpp"

#include <httplib.h>

#include <chrono>
#include <utility>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

// Whoever looks is on this machine, or nearly so: nobody needs longer, and nobody needs many.
http::server_options options_for(const listen_address& where, log_sink log)
{
    return {.who = "the daemon",
            .address = where.host,
            .port = static_cast<std::uint16_t>(where.port),
            .connections_max = 4,
            .body_bytes_max = 0,
            .request_within = 5s,
            .log = std::move(log)};
}

} // namespace

struct http_listener::state {
    state(const listen_address& at, log_sink log)
        : where(at), server(options_for(at, std::move(log)))
    {}

    listen_address where;
    http::server server;
};

http_listener::http_listener(const listen_address& where, answering answer, log_sink log)
    : state_(std::make_unique<state>(where, std::move(log)))
{
    // Before the library looks for a pattern that matches, or reads a body: neither is of use here.
    state_->server.answers().set_pre_routing_handler(
        [answer = std::move(answer)](const httplib::Request& request, httplib::Response& response) {
            const bool reads = request.method == "GET" || request.method == "HEAD";
            const auto said = reads ? answer(request.path)
                                    : http_answer{.status = 405, .body = "this can only be read\n"};
            if (!reads)
                response.set_header("Allow", "GET, HEAD");
            response.status = said.status;
            response.set_content(said.body, said.type);
            return httplib::Server::HandlerResponse::Handled;
        });
    state_->where.port = state_->server.start();
}

http_listener::~http_listener() = default;

const listen_address& http_listener::address() const
{
    return state_->where;
}

bool http_listener::is_listening() const noexcept
{
    return state_->server.is_listening();
}

} // namespace posthorn::daemon
