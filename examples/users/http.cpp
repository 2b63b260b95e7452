// From requests to commands, and from answers to status codes. The only file that knows of HTTP.
#include "http.hpp"

#include "one_time_password.hpp"
#include "user_commands.hpp"
#include <posthorn/error.hpp>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

namespace users {
namespace {

namespace ph = posthorn;
using nlohmann::json;

void answer(httplib::Response& to, int status, const json& body)
{
    to.status = status;
    to.set_content(body.dump() + "\n", "application/json");
}

void answer_error(httplib::Response& to, int status, const std::string& words)
{
    answer(to, status, {{"error", words}});
}

void ask_to_try_again(httplib::Response& to, int status, const std::string& words)
{
    to.set_header("Retry-After", "1");
    answer_error(to, status, words);
}

// What is missing, or no text, is empty: validation then names it with all the rest.
std::string field(const json& body, const char* name)
{
    const auto found = body.find(name);
    return found != body.end() && found->is_string() ? found->get<std::string>() : "";
}

// The same address for everybody, however it is written.
std::string lower(std::string text)
{
    std::ranges::transform(text, text.begin(), [](char each) {
        return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
    });
    return text;
}

void answer_outcome(httplib::Response& to, int status, const ph::sent_command<std::string>& sent)
{
    if (sent.refused()) {
        auto problems = json::array();
        for (const auto& each : sent.problems)
            problems.push_back({{"field", each.field}, {"problem", each.what}});
        answer(to, 422, {{"error", "the request was refused"}, {"problems", problems}});
        return;
    }
    switch (sent.outcome.answer) {
    case ph::command_answer::replayed:
        to.set_header("Idempotent-Replayed", "true");
        [[fallthrough]];
    case ph::command_answer::executed: return answer(to, status, {{"id", sent.value()}});
    case ph::command_answer::in_progress:
    case ph::command_answer::lost:
    case ph::command_answer::stopped:
        return ask_to_try_again(to, 409, "a request with this key is being worked on");
    case ph::command_answer::mismatch:
        return answer_error(to, 422, "this key was used before, for another request");
    }
}

// `Idempotency-Key` and a body of JSON become a command; its fields are what the key stands for.
template <typename Make>
httplib::Server::Handler command_route(ph::command_pipeline& commands, int status, Make make)
{
    return [&commands, status, make](const httplib::Request& request, httplib::Response& to) {
        const auto body = json::parse(request.body, nullptr, false);
        if (!body.is_object())
            return answer_error(to, 400, "the body must be a JSON object");
        const auto [command, fingerprint] = make(body, request.get_header_value("Idempotency-Key"));
        answer_outcome(to, status, commands.send(command, sha256(fingerprint.dump())));
    };
}

std::pair<register_user, json> read_registration(const json& body, const std::string& key)
{
    register_user what{
        .email = lower(field(body, "email")), .name = field(body, "name"), .idempotency_key = key};
    return {what, json::array({what.email, what.name})};
}

std::pair<verify_user, json> read_verification(const json& body, const std::string& key)
{
    verify_user what{
        .email = lower(field(body, "email")), .code = field(body, "code"), .idempotency_key = key};
    return {what, json::array({what.email, what.code})};
}

// Words about a failure are for the log; clients learn whether to try again.
void answer_failure(const ph::log_sink& log, httplib::Response& to, const std::exception_ptr& what)
{
    try {
        std::rethrow_exception(what);
    } catch (const ph::error& failure) {
        log(ph::log_level::error, failure.what());
        if (failure.retryable() || failure.in_doubt()) // the key knows what became of it
            return ask_to_try_again(to, 503, "the database is busy");
    } catch (const std::exception& failure) {
        log(ph::log_level::error, failure.what());
    }
    answer_error(to, 500, "something went wrong here");
}

} // namespace

struct http_service::state {
    httplib::Server server;
    std::thread listening;
    std::atomic<bool> has_ended = false;
    ph::environment world;
};

http_service::http_service(ph::command_pipeline& commands, const user_table& table,
                           const ph::store& store)
    : state_(std::make_unique<state>())
{
    state_->world = store.environment();
    auto& server = state_->server;
    server.Post("/users", command_route(commands, 201, read_registration));
    server.Post("/users/verify", command_route(commands, 200, read_verification));
    server.Get(R"(/users/([-0-9a-f]{36}))",
               [&table, store](const httplib::Request& request, httplib::Response& to) {
                   auto tx = ph::store(store).read();
                   const auto who = table.find(tx, request.matches[1]);
                   if (!who)
                       return answer_error(to, 404, "there is no such user");
                   answer(to, 200,
                          {{"id", who->id},
                           {"email", who->email},
                           {"name", who->name},
                           {"state", who->state_name()}});
               });
    server.set_payload_max_length(64 * 1'024);
    server.set_keep_alive_timeout(1);
    // Its own choice would let a second process share the port.
    server.set_socket_options([](socket_t which) {
        const int yes = 1;
        setsockopt(which, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_exception_handler([log = state_->world.log](const httplib::Request&,
                                                           httplib::Response& to,
                                                           const std::exception_ptr& what) {
        answer_failure(log, to, what);
    });
    server.set_logger(
        [log = state_->world.log](const httplib::Request& request, const httplib::Response& said) {
            log(ph::log_level::info,
                request.method + " " + request.path + " " + std::to_string(said.status));
        });
}

http_service::~http_service()
{
    stop();
}

int http_service::start(int port)
{
    constexpr auto here = "127.0.0.1";
    auto& server = state_->server;
    const int bound = port == 0                         ? server.bind_to_any_port(here)
                      : server.bind_to_port(here, port) ? port
                                                        : -1;
    if (bound < 0)
        throw std::runtime_error("port " + std::to_string(port) + " is not free");
    state_->listening = std::thread([this] {
        state_->server.listen_after_bind();
        state_->has_ended = true;
    });
    // Before that it cannot be stopped.
    while (!server.is_running() && !state_->has_ended)
        state_->world.clock->pause(std::chrono::milliseconds{1});
    return bound;
}

void http_service::stop()
{
    state_->server.stop();
    if (state_->listening.joinable())
        state_->listening.join();
}

} // namespace users
