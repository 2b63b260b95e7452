// One thread accepts connections and receives what they send. A request that is complete is
// answered by another thread, so that slow senders keep none of those busy. When requests wait for
// a thread, connections that only linger after their answer have to go. Of the HTTP library we use
// what reads and answers a request; its own loop ends for good when accepting fails once.
#include "http/server.hpp"

#include "http/bounded_threads.hpp"
#include "http/idle_connections.hpp"
#include "http/incoming_requests.hpp"
#include "http/latch.hpp"
#include "http/listening_socket.hpp"
#include "http/request_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace posthorn::http {
namespace {

using namespace std::chrono_literals;

constexpr duration stop_patience = 1s;
constexpr duration pause_min = 10ms;
constexpr duration pause_max = 1s;
constexpr duration quiet_after_trouble = 10s; // it may come and go many times a second
constexpr std::size_t accepted_at_once_max = 64;

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

// So many connections may send their requests for each that is answered, within the files that the
// process may have.
std::size_t incoming_max(std::size_t answered_max)
{
    constexpr std::size_t for_each = 16;
    constexpr std::size_t total_max = 4'096;
    rlimit files{};
    const bool known = ::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
    const auto share = known ? static_cast<std::size_t>(files.rlim_cur / 4) : total_max;
    return std::max<std::size_t>(std::min({answered_max * for_each, share, total_max}), 1);
}

incoming_requests::bounds bounds_for(const server_options& how)
{
    return {.count_max = incoming_max(how.connections_max),
            .bytes_max = how.connections_max * (how.body_bytes_max + head_bytes_max),
            .body_bytes_max = how.body_bytes_max};
}

} // namespace

class server::state {
public:
    explicit state(server_options given) : how(std::move(given)), incoming(bounds_for(how))
    {
        // The library would tell strangers what was thrown, in a header.
        answers.set_exception_handler([](const auto&, auto& response, const std::exception_ptr&) {
            response.status = 500;
            response.set_content("something went wrong here\n", "text/plain");
        });
    }

    void run();
    void stop_accepting();
    void stop();

    const server_options how;
    std::string name; ///< for people
    answering answers;
    std::optional<listening_socket> door;
    latch interrupted; ///< connections are not waited for
    latch wake;        ///< a thread is free again, or no connection is to be accepted any more
    std::atomic<bool> listening = false;
    idle_connections idle;
    std::optional<bounded_threads> threads; // after what they use
    std::thread receiving;

private:
    void serve(connection& with, bool is_malformed);
    void tell(log_level level, std::string_view what, std::string_view why) const noexcept;

    void turn();
    void wait();
    void accept();
    [[nodiscard]] bool accept_one();
    void could_not_accept(int code);
    void could_accept();
    void hand_over();
    void close_port();

    [[nodiscard]] bool may_accept() const { return door && machine_time() >= accept_after_; }
    [[nodiscard]] bool is_full() const { return ready_.size() >= how.connections_max; }
    [[nodiscard]] int wait_ms_max() const;

    incoming_requests incoming;
    incoming_requests::arrivals ready_;
    std::vector<pollfd> polled_;
    monotonic_time accept_after_{};
    monotonic_time tell_after_{};
    duration pause_ = pause_min;
    bool told_trouble_ = false;

    // How far its end has come: no files, which may be few.
    std::atomic<bool> no_more_ = false; ///< no connection is accepted
    std::mutex mutex_;
    std::condition_variable changed_;
    bool closed_ = false;   ///< the port is free again
    bool finished_ = false; ///< all that was accepted is with a thread
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

// Tells of trouble that comes and goes once in a while, however often it does.
void server::state::could_not_accept(int code)
{
    const auto now = machine_time();
    listening = false;
    if (!told_trouble_ && now >= tell_after_) {
        told_trouble_ = true;
        tell_after_ = now + quiet_after_trouble;
        tell(log_level::error, "cannot accept connections, and tries again", words_for(code));
    }
    accept_after_ = now + pause_;
    pause_ = std::min(pause_ * 2, pause_max);
    if (is_a_shortage(code))
        incoming.send_one_away(); // and its file is free
    else
        (void)door->reopen(); // else accepting fails again, and leads here
}

void server::state::could_accept()
{
    pause_ = pause_min;
    if (!listening.exchange(true) && std::exchange(told_trouble_, false))
        tell(log_level::info, "listens again", {});
}

// False: no connection waits any more.
bool server::state::accept_one()
{
    listening_socket::peer from{};
    const int socket = door->accept(from);
    const int code = socket < 0 ? errno : 0;
    if (is_about_one_connection(code))
        return true;
    if (code != 0 && code != EAGAIN) {
        could_not_accept(code);
        return false;
    }
    could_accept();
    if (code == EAGAIN)
        return false;
    std::unique_ptr<connection> with;
    try {
        with = std::make_unique<connection>(socket, interrupted, how.request_within);
    } catch (const std::exception&) { // no memory: its sender comes again
        ::close(socket);
        throw;
    }
    incoming.add(std::move(with), from);
    return true;
}

void server::state::accept()
{
    for (std::size_t i = 0; i < accepted_at_once_max && accept_one(); ++i)
        continue;
}

int server::state::wait_ms_max() const
{
    std::optional<duration> length;
    const auto at_most = [&](duration other) { length = std::min(length.value_or(other), other); };
    if (door && !may_accept())
        at_most(accept_after_ - machine_time());
    if (!ready_.empty())
        at_most(idle.patience_left());
    else if (const auto left = incoming.time_left())
        at_most(*left);
    if (!length)
        return -1;
    constexpr std::int64_t ms_max = 60'000; // what fits whatever poll takes
    return static_cast<int>(
        std::min(std::chrono::ceil<std::chrono::milliseconds>(*length).count(), ms_max));
}

// Takes nothing new while requests wait for a thread: what others send waits in the kernel.
void server::state::wait()
{
    polled_.clear();
    polled_.push_back(
        {.fd = incoming.empty() ? -1 : interrupted.file(), .events = POLLIN, .revents = 0});
    polled_.push_back({.fd = wake.file(), .events = POLLIN, .revents = 0});
    const bool takes = !is_full();
    polled_.push_back(
        {.fd = takes && may_accept() ? door->file() : -1, .events = POLLIN, .revents = 0});
    const auto first = polled_.size();
    if (takes)
        incoming.list_sockets(polled_);
    (void)::poll(polled_.data(), polled_.size(), wait_ms_max());
    wake.clear();
    if (takes)
        incoming.take_from(polled_.data() + first, ready_);
}

void server::state::hand_over()
{
    while (!ready_.empty() &&
           threads->wait_for_a_free_one(duration::zero()) == bounded_threads::found::one) {
        const std::shared_ptr<connection> with = std::move(ready_.front().with); // for a function
        threads->run([this, with, is_malformed = ready_.front().is_malformed] {
            serve(*with, is_malformed);
        });
        ready_.pop_front();
    }
    if (!ready_.empty())
        idle.send_one_away();
}

void server::state::close_port()
{
    listening = false;
    door.reset();
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
}

void server::state::turn()
{
    wait();
    if (door && no_more_)
        close_port();
    if (interrupted.is_set())
        incoming.give_up(ready_);
    else if (!is_full() && may_accept())
        accept();
    hand_over();
}

void server::state::run()
{
    while (door || !incoming.empty() || !ready_.empty()) {
        try {
            turn();
        } catch (const std::exception& why) {
            // There is no memory, or nearly so. Senders that hear nothing come again.
            tell(log_level::warning, "left a request without an answer", why.what());
            incoming.send_one_away();
        }
    }
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
}

void server::state::serve(connection& with, bool is_malformed)
{
    try {
        request_stream from(with, how.body_bytes_max);
        const auto head = is_malformed ? request_stream::head::malformed : from.receive_head();
        if (head == request_stream::head::absent)
            return;
        if (head == request_stream::head::complete)
            answers.answer(from);
        else if (!with.send(refusal_of(head)))
            return;
        if (head == request_stream::head::too_large || head == request_stream::head::malformed ||
            from.is_unread()) {
            const idle_connections::stay answered(idle, with.socket());
            with.discard_rest();
        }
    } catch (const std::exception& why) {
        // There is no memory for it, or nearly so. Its sender hears nothing, and comes again.
        tell(log_level::warning, "left a request without an answer", why.what());
    }
}

void server::state::stop_accepting()
{
    if (!receiving.joinable())
        return;
    no_more_ = true;
    wake.set();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_; });
}

void server::state::stop()
{
    if (!receiving.joinable())
        return;
    stop_accepting();
    const auto patience_until = machine_time() + stop_patience;
    bool in_time = false;
    {
        std::unique_lock lock(mutex_);
        in_time = changed_.wait_for(lock, stop_patience, [this] { return finished_; });
    }
    const auto left = std::max(patience_until - machine_time(), duration::zero());
    if (!in_time || !threads->wait_for_all(left))
        interrupted.set();
    receiving.join();
    threads.reset();
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
    of.threads.emplace(of.how.connections_max, [&of] { of.wake.set(); });
    of.listening = true;
    of.receiving = std::thread([&of] { of.run(); });
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
    state_->stop();
}

shortfall shortfall_of_this_request() noexcept
{
    return request_stream::of_this_thread();
}

} // namespace posthorn::http
