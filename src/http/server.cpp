// One thread accepts, and only when there is a thread to serve whom it accepts. If somebody waits
// for one, it sends those away who keep threads without a word. Of the HTTP library we use what
// reads and answers a request; its own loop ends for good when accepting fails once.
#include "http/server.hpp"

#include "http/bounded_threads.hpp"
#include "http/idle_connections.hpp"
#include "http/latch.hpp"
#include "http/listening_socket.hpp"
#include "http/request_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <poll.h>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace posthorn::http {
namespace {

using namespace std::chrono_literals;

constexpr duration stop_patience = 1s;
constexpr duration pause_min = 10ms;
constexpr duration pause_max = 1s;

class answering final : public httplib::Server {
public:
    void answer(request_stream& to)
    {
        bool ignored = false;
        (void)process_request(to, true, ignored, nullptr);
    }
};

// Not about us: whoever was about to be accepted is gone again, or not let through. Linux hands on
// what happened to the connection so far.
bool is_about_one_connection(int code)
{
    constexpr std::array all{ECONNABORTED, EINTR,     EPROTO, EPERM,        ENETDOWN,
                             ENOPROTOOPT,  EHOSTDOWN, ENONET, EHOSTUNREACH, ENETUNREACH};
    return std::ranges::find(all, code) != all.end();
}

// The system lacks something just now. Anything else means that the socket is of no more use.
bool is_a_shortage(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

std::string words_for(int code) noexcept
{
    try {
        return std::generic_category().message(code);
    } catch (const std::exception&) { // no memory for them
        return {};
    }
}

std::string refusal_of(request_stream::head what)
{
    const auto* status = what == request_stream::head::too_large
                             ? "431 Request Header Fields Too Large"
                         : what == request_stream::head::malformed ? "400 Bad Request"
                                                                   : "408 Request Timeout";
    return std::string("HTTP/1.1 ") + status + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
}

} // namespace

class server::state {
public:
    explicit state(server_options given) : how(std::move(given)) {}

    void accept_all();
    void stop_accepting();

    const server_options how;
    std::string name; ///< for people
    answering answers;
    std::optional<listening_socket> door;
    latch no_more;     ///< nobody is accepted
    latch interrupted; ///< nobody is waited for
    std::atomic<bool> listening = false;
    idle_connections idle;
    std::optional<bounded_threads> threads; // after what they use
    std::thread accepting;

private:
    void serve(int socket);
    [[nodiscard]] bool recovered_from(int code, duration pause);
    void tell(log_level level, std::string_view what, std::string_view why) const noexcept;

    // False: nobody is to be accepted any more.
    [[nodiscard]] bool rest(duration length) const;
    [[nodiscard]] bool wait_for_a_thread();

    enum class arrival { somebody, nobody, over };
    [[nodiscard]] arrival wait_for_somebody(int ms_max) const;
};

void server::state::tell(log_level level, std::string_view what,
                         std::string_view why) const noexcept
{
    try {
        if (how.log)
            how.log(level, fmt::format("{} {}{}{}", name, what, why.empty() ? "" : ": ", why));
    } catch (const std::exception&) { // No memory for a line is no reason to end the process.
    }
}

bool server::state::rest(duration length) const
{
    pollfd end{.fd = no_more.file(), .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(length).count();
    return ::poll(&end, 1, static_cast<int>(ms)) <= 0;
}

server::state::arrival server::state::wait_for_somebody(int ms_max) const
{
    std::array<pollfd, 2> both{{{.fd = no_more.file(), .events = POLLIN, .revents = 0},
                                {.fd = door->file(), .events = POLLIN, .revents = 0}}};
    const int ready = ::poll(both.data(), both.size(), ms_max);
    if (both[0].revents != 0)
        return arrival::over;
    return ready == 0 ? arrival::nobody : arrival::somebody;
}

bool server::state::wait_for_a_thread()
{
    using found = bounded_threads::found;
    constexpr int look_again_ms = 1'000; // if nobody comes, and where the socket is broken
    auto what = threads->wait_for_a_free_one(duration::zero());
    while (what == found::none) {
        // Who is silent may stay as long as nobody else needs the thread.
        const auto who = wait_for_somebody(look_again_ms);
        if (who == arrival::over)
            return false;
        const bool is_needed = who == arrival::somebody;
        what = threads->wait_for_a_free_one(is_needed ? idle.patience_left() : duration::zero());
        if (what == found::none && is_needed)
            idle.send_one_away();
    }
    return what == found::one;
}

// Tells of it once, however often it is tried.
bool server::state::recovered_from(int code, duration pause)
{
    if (listening.exchange(false))
        tell(log_level::error, "can accept nobody, and tries again", words_for(code));
    if (!rest(pause))
        return false;
    if (!is_a_shortage(code))
        (void)door->reopen(); // else accepting fails again, and leads here
    return true;
}

void server::state::accept_all()
{
    auto pause = pause_min;
    while (wait_for_a_thread()) {
        const int socket = door->accept();
        const int code = socket < 0 ? errno : 0;
        if (is_about_one_connection(code))
            continue;
        if (code != 0 && code != EAGAIN) {
            if (!recovered_from(code, pause))
                return;
            pause = std::min(pause * 2, pause_max);
            continue;
        }
        if (!listening.exchange(true))
            tell(log_level::info, "listens again", {});
        pause = pause_min;
        if (code == 0)
            threads->run([this, socket] { serve(socket); });
        else if (wait_for_somebody(-1) == arrival::over)
            return;
    }
}

void server::state::serve(int socket)
{
    connection with(socket, interrupted, how.request_within);
    try {
        request_stream from(with, how.body_bytes_max);
        std::optional<idle_connections::stay> unheard(std::in_place, idle, socket);
        const auto head = from.receive_head();
        unheard.reset();
        if (head == request_stream::head::absent)
            return;
        if (head == request_stream::head::complete)
            answers.answer(from);
        else if (!with.send(refusal_of(head)))
            return;
        if (head == request_stream::head::too_large || head == request_stream::head::malformed ||
            from.is_unread()) {
            const idle_connections::stay answered(idle, socket);
            with.discard_rest();
        }
    } catch (const std::exception& why) {
        // There is no memory for it, or nearly so. Its sender hears nothing, and comes again.
        tell(log_level::warning, "left a request without an answer", why.what());
    }
}

void server::state::stop_accepting()
{
    no_more.set();
    if (threads)
        threads->take_no_more();
    if (accepting.joinable())
        accepting.join();
    listening = false;
    door.reset();
}

server::server(server_options how) : state_(std::make_unique<state>(std::move(how))) {}

server::~server()
{
    stop();
}

httplib::Server& server::answers()
{
    return state_->answers;
}

std::uint16_t server::start()
{
    auto& of = *state_;
    of.door.emplace(of.how.who, of.how.address, of.how.port);
    of.name = fmt::format("{} at {}", of.how.who, of.door->place());
    const auto port = of.door->port();
    of.threads.emplace(of.how.connections_max);
    of.listening = true;
    of.accepting = std::thread([&of] { of.accept_all(); });
    return port;
}

bool server::is_listening() const noexcept
{
    return state_->listening;
}

void server::stop_accepting()
{
    state_->stop_accepting();
}

void server::stop()
{
    stop_accepting();
    if (state_->threads && !state_->threads->wait_for_all(stop_patience))
        state_->interrupted.set();
    state_->threads.reset();
}

shortfall shortfall_of_this_request() noexcept
{
    return request_stream::of_this_thread();
}

} // namespace posthorn::http
