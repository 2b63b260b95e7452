// The only file that knows of the HTTP library.
#include "endpoint/http_server.hpp"

#include "transport/webhook/http_headers.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace posthorn::endpoint {
namespace {

// A thread for each connection, up to a limit; who accepts them waits for one that is free.
class bounded_threads final : public httplib::TaskQueue {
public:
    explicit bounded_threads(std::size_t count)
    {
        for (std::size_t i = 0; i < count; ++i)
            threads_.emplace_back([this] { work(); });
    }

    void enqueue(std::function<void()> task) override
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return tasks_.size() + busy_ < threads_.size(); });
        tasks_.push_back(std::move(task));
        changed_.notify_all();
    }

    void shutdown() override
    {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
            changed_.notify_all();
        }
        for (auto& each : threads_)
            each.join();
    }

private:
    void work()
    {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
            if (tasks_.empty())
                return;
            const auto task = std::move(tasks_.front());
            tasks_.pop_front();
            ++busy_;
            lock.unlock();
            task();
            lock.lock();
            --busy_;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    std::vector<std::thread> threads_;
    std::size_t busy_ = 0;
    bool ending_ = false;
};

constexpr std::size_t discarded_bytes_max = std::size_t{1} << 20U;

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

} // namespace

struct http_server::state {
    explicit state(reception& behind) : desk(behind) {}

    reception& desk;
    httplib::Server server;
    std::thread listening;
    std::atomic<bool> has_ended = false;

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

    // Reads as much as is allowed and no longer than is allowed, and then a little more for
    // nothing: a sender that is cut off while it sends would not hear the answer. Nothing: it is
    // given.
    std::optional<std::string> body_of(const httplib::ContentReader& reader,
                                       httplib::Response& to) const
    {
        const auto& how = desk.options();
        const auto until = desk.world().clock->monotonic() + how.request_within;
        std::string body;
        std::size_t total = 0;
        bool too_slow = false;
        const bool whole = reader([&](const char* bytes, std::size_t count) {
            total += count;
            too_slow = desk.world().clock->monotonic() > until;
            if (total <= how.body_bytes_max)
                body.append(bytes, count);
            return !too_slow && total <= how.body_bytes_max + discarded_bytes_max;
        });
        if (whole && total <= how.body_bytes_max)
            return body;
        say(to, total > how.body_bytes_max ? refusal_of(413, "the body is too large", "send less")
                : too_slow ? refusal_of(408, "the body took too long", "send it faster")
                           : refusal_of(400, "the body cannot be read", "send it again"));
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

    static void discard(const httplib::Request& request, const httplib::ContentReader& reader)
    {
        std::size_t total = 0;
        const auto nothing = [&](const char*, std::size_t count) {
            total += count;
            return total <= discarded_bytes_max;
        };
        if (request.is_multipart_form_data())
            (void)reader([](const auto&) { return true; }, nothing);
        else
            (void)reader(nothing);
    }

    void take(const httplib::Request& request, httplib::Response& to,
              const httplib::ContentReader& reader) const
    {
        if (!is_plain(request)) {
            discard(request, reader);
            return say(to, refusal_of(415, "the body is a form, or packed",
                                      "send the message itself as the body"));
        }
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
    auto& server = state_->server;
    const auto& how = behind.options();
    server.new_task_queue = [count = how.connections_max] { return new bounded_threads(count); };
    server.set_keep_alive_max_count(1);
    server.set_keep_alive_timeout(
        std::chrono::ceil<std::chrono::seconds>(how.request_within).count());
    server.set_read_timeout(how.request_within);
    server.set_write_timeout(how.request_within);
    server.set_payload_max_length(SIZE_MAX); // which would read all of what is too large
    // Its own choice would let a second process share the port.
    server.set_socket_options([](socket_t which) {
        const int yes = 1;
        setsockopt(which, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // What none of the patterns below would match is read without a limit.
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

http_server::~http_server()
{
    stop();
}

std::uint16_t http_server::start()
{
    const auto& how = state_->desk.options();
    auto& server = state_->server;
    const int bound = how.port == 0 ? server.bind_to_any_port(how.address)
                      : server.bind_to_port(how.address, how.port) ? how.port
                                                                   : -1;
    if (bound < 0)
        throw error(error_code::unavailable,
                    fmt::format("the inbox endpoint cannot listen on {}:{}: is the address of this "
                                "machine, and the port free?",
                                how.address, how.port));
    state_->listening = std::thread([of = state_.get()] {
        of->server.listen_after_bind();
        of->has_ended = true;
    });
    // Before that it cannot be stopped.
    while (!server.is_running() && !state_->has_ended)
        std::this_thread::yield();
    return static_cast<std::uint16_t>(bound);
}

void http_server::stop()
{
    state_->server.stop();
    if (state_->listening.joinable())
        state_->listening.join();
}

} // namespace posthorn::endpoint
