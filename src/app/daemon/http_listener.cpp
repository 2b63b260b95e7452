// Listening, by cpp-httplib: the only place that includes it, because it compiles slowly.
#include "app/daemon/http_listener.hpp"

#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <httplib.h>

#include <thread>
#include <utility>

namespace posthorn::daemon {
namespace {

// Whoever looks is on this machine, or nearly so: nobody needs longer, and nobody needs many.
constexpr std::size_t threads_max = 4;
constexpr time_t patience_s = 5;
constexpr std::size_t request_bytes_max = 64 * 1024;

} // namespace

struct http_listener::state {
    httplib::Server server;
    listen_address where;
    std::jthread thread;
};

http_listener::http_listener(const listen_address& where, answering answer)
    : state_(std::make_unique<state>())
{
    auto& server = state_->server;
    state_->where = where;
    server.new_task_queue = [] { return new httplib::ThreadPool(threads_max); };
    server.set_read_timeout(patience_s);
    server.set_write_timeout(patience_s);
    server.set_keep_alive_max_count(1); // else ending waits for connections that nobody uses
    server.set_payload_max_length(request_bytes_max);
    // Two daemons must not share a port without knowing.
    server.set_socket_options([](socket_t socket) {
        const int yes = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.Get(".*", [answer = std::move(answer)](const httplib::Request& request,
                                                  httplib::Response& response) {
        auto said = answer(request.path);
        response.status = said.status;
        response.set_content(std::move(said.body), said.type);
    });
    if (where.port == 0)
        state_->where.port = server.bind_to_any_port(where.host);
    const bool bound =
        where.port == 0 ? state_->where.port > 0 : server.bind_to_port(where.host, where.port);
    if (!bound)
        throw error(error_code::unavailable,
                    fmt::format("cannot listen at {}: it is taken, or not an address of this "
                                "machine",
                                to_string(where)));
    state_->thread = std::jthread([this] { state_->server.listen_after_bind(); });
    // It can only be stopped once it runs.
    while (!server.is_running())
        environment::system().clock->pause(std::chrono::milliseconds{1});
}

http_listener::~http_listener()
{
    state_->server.stop();
}

const listen_address& http_listener::address() const
{
    return state_->where;
}

} // namespace posthorn::daemon
