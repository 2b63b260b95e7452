// What is asked over HTTP, put to the reception. How much and how long anybody may ask is up to the
// server beneath.
#include "endpoint/http_server.hpp"

#include "http/server.hpp"
#include "transport/webhook/http_headers.hpp"

#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace posthorn::endpoint {
namespace {

// Printable, and short enough to be matched quickly.
bool is_ordinary(const httplib::Request& request)
{
    constexpr std::size_t path_bytes_max = 1'000;
    return request.path.size() <= path_bytes_max && request.method != "PRI" &&
           std::ranges::all_of(request.path, [](char each) { return each > ' ' && each <= '~'; });
}

headers headers_in(const httplib::Request& request)
{
    headers result;
    for (const auto& [name, value] : request.headers)
        result.emplace(transports::lower_case(name), value); // of several, the first
    return result;
}

// What the sender is to do about a body that could not be read: only what is too large is in vain.
response refusal_because_of(http::shortfall why)
{
    if (why == http::shortfall::too_much)
        return refusal_of(413, "the body is too large", "send less");
    if (why == http::shortfall::too_slow)
        return refusal_of(408, "the body took too long", "send it faster");
    if (why != http::shortfall::interrupted)
        return refusal_of(400, "the body cannot be read", "send it again");
    auto result = refusal_of(503, "nobody listens here any more", "send it again");
    result.try_again = true;
    return result;
}

http::server_options options_for(const reception& behind)
{
    const auto& how = behind.options();
    return {.who = "the inbox endpoint",
            .address = how.address,
            .port = how.port,
            .connections_max = how.connections_max,
            .body_bytes_max = how.body_bytes_max,
            .request_within = how.request_within,
            .log = behind.world().log};
}

} // namespace

struct http_server::state {
    explicit state(reception& behind) : desk(behind), server(options_for(behind)) {}

    reception& desk;
    http::server server;

    void say(httplib::Response& to, const response& what) const
    {
        to.status = what.status;
        if (what.try_again)
            to.set_header(
                "Retry-After",
                std::to_string(
                    std::chrono::ceil<std::chrono::seconds>(desk.options().retry_after).count()));
        to.set_content(what.body, "application/json");
    }

    // Nothing: why not has been said.
    std::optional<std::string> body_of(const httplib::ContentReader& reader,
                                       httplib::Response& to) const
    {
        const auto bytes_max = desk.options().body_bytes_max;
        std::string body;
        bool too_much = false;
        const bool whole = reader([&](const char* bytes, std::size_t count) {
            too_much = count > bytes_max - body.size();
            if (!too_much)
                body.append(bytes, count);
            return !too_much;
        });
        if (whole)
            return body;
        say(to, refusal_because_of(too_much ? http::shortfall::too_much
                                            : http::shortfall_of_this_request()));
        return std::nullopt;
    }

    // A form would be taken apart, and what is packed be unpacked, before anybody has verified it.
    [[nodiscard]] static bool is_plain(const httplib::Request& request)
    {
        return !transports::lower_case(request.get_header_value("Content-Type"))
                    .starts_with("multipart/") &&
               (!request.has_header("Content-Encoding") ||
                transports::lower_case(request.get_header_value("Content-Encoding")) == "identity");
    }

    void take(const httplib::Request& request, httplib::Response& to,
              const httplib::ContentReader& reader) const
    {
        if (!is_plain(request))
            return say(to, refusal_of(415, "the body is a form, or packed",
                                      "send the message itself as the body"));
        auto body = body_of(reader, to);
        if (!body)
            return;
        const auto* at = desk.find(request.path);
        if (at == nullptr || request.method != "POST")
            return refuse(request, to);
        say(to, desk.receive(*at, headers_in(request), *std::move(body)));
    }

    void refuse(const httplib::Request& request, httplib::Response& to) const
    {
        if (desk.find(request.path) != nullptr)
            return refuse_method(to);
        say(to, refusal_of(404, "nobody posts here", "look at the path"));
    }

    void refuse_method(httplib::Response& to) const
    {
        to.set_header("Allow", "POST");
        say(to, refusal_of(405, "messages are posted", "use POST"));
    }
};

http_server::http_server(reception& behind) : state_(std::make_unique<state>(behind))
{
    auto& server = state_->server.answers();
    // What none of the patterns below would match is read by the library, for nobody.
    server.set_pre_routing_handler([of = state_.get()](const auto& request, auto& to) {
        if (is_ordinary(request))
            return httplib::Server::HandlerResponse::Unhandled;
        of->say(to, refusal_of(404, "nobody posts here", "look at the path"));
        return httplib::Server::HandlerResponse::Handled;
    });
    const httplib::Server::HandlerWithContentReader take =
        [of = state_.get()](const auto& request, auto& to, const auto& reader) {
            of->take(request, to, reader);
        };
    const httplib::Server::Handler refuse = [of = state_.get()](const auto& request, auto& to) {
        of->refuse(request, to);
    };
    constexpr auto everywhere = ".*";
    server.Post(everywhere, take).Put(everywhere, take).Patch(everywhere, take);
    server.Delete(everywhere, take);
    server.Get(everywhere, refuse).Options(everywhere, refuse).Delete(everywhere, refuse);
    server.set_error_handler(httplib::Server::HandlerWithResponse(
        [of = state_.get()](const auto& /*request*/, auto& to) {
            if (to.body.empty())
                of->say(to, refusal_of(to.status, "this is no request that can be answered",
                                       "post a message"));
            return httplib::Server::HandlerResponse::Handled;
        }));
    server.set_exception_handler(
        [of = state_.get()](const auto& /*request*/, auto& to, const std::exception_ptr& /*why*/) {
            auto said = refusal_of(503, "something went wrong here", "send it again");
            said.try_again = true;
            of->say(to, said);
        });
}

http_server::~http_server() = default;

std::uint16_t http_server::start()
{
    return state_->server.start();
}

bool http_server::is_listening() const noexcept
{
    return state_->server.is_listening();
}

void http_server::stop_accepting()
{
    state_->server.stop_accepting();
}

void http_server::stop()
{
    state_->server.stop();
}

} // namespace posthorn::endpoint
