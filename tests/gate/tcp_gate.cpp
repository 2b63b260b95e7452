// One thread owns all sockets and does everything, so that nothing needs a lock but the counters
// and the list of what that thread is asked to do.
#include "gate/tcp_gate.hpp"

#include "gate/socket.hpp"
#include "gate/tcp_connection.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace posthorn::test {

class tcp_gate::loop {
public:
    loop(const std::string& address, std::uint16_t port)
        : server_(loopback_or(address, port)),
          place_(bound_socket(0)),
          port_(port_of(place_)),
          listener_(listening_socket(port_)),
          alarm_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          thread_([this] { run(); })
    {}
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;
    ~loop()
    {
        ask([this] { over_ = true; });
        thread_.join();
    }

    /// Runs `what` on the thread of the gate, and waits until it is done.
    void ask(std::function<void()> what)
    {
        std::packaged_task<void()> task(std::move(what));
        auto done = task.get_future();
        {
            const std::lock_guard lock(mutex_);
            tasks_.push_back(std::move(task));
        }
        const std::uint64_t one = 1;
        if (::write(alarm_.number(), &one, sizeof one) != sizeof one)
            throw std::system_error(errno, std::generic_category(), "the gate cannot be woken");
        done.get();
    }

    // The controls; on the thread of the gate only.
    void cut(ending how)
    {
        for (auto& each : connections_)
            each.end(how == ending::reset);
        bury();
    }
    void refuse(bool refusing)
    {
        if (refusing)
            listener_ = {};
        else if (listener_.number() < 0)
            listener_ = listening_socket(port_);
    }
    void stall(bool stalling) { stalled_ = stalling; }
    void delay(direction which, std::chrono::milliseconds by)
    {
        (which == direction::to_server ? delay_to_server_ : delay_to_client_) = by;
    }
    void lose(std::optional<planned_loss> what) { loss_ = std::move(what); }

    [[nodiscard]] std::uint16_t port() const { return port_; }

    [[nodiscard]] counters seen() const
    {
        const std::lock_guard lock(mutex_);
        return counted_;
    }

    bool wait_for(const std::function<bool(const counters&)>& enough,
                  std::chrono::milliseconds at_most) const
    {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, at_most, [&] { return enough(counted_); });
    }

private:
    void run()
    {
        while (!over_) {
            wait();
            if (listener_.number() >= 0)
                while (auto client = accepted_socket(listener_))
                    take(std::move(*client));
            if (!stalled_)
                for (auto& each : connections_)
                    move(each);
            bury();
            do_tasks();
        }
    }

    /// Until a socket is ready, a delay is over, or somebody asks for something.
    void wait()
    {
        std::vector<pollfd> watched{{alarm_.number(), POLLIN, 0}};
        if (listener_.number() >= 0)
            watched.push_back({listener_.number(), POLLIN, 0});
        const auto now = std::chrono::steady_clock::now();
        auto patience = std::chrono::milliseconds{-1};
        if (!stalled_)
            for (const auto& each : connections_)
                each.watch(now, watched, patience);
        ::poll(watched.data(), watched.size(), static_cast<int>(patience.count()));
    }

    void take(socket client)
    {
        auto server = connected_socket(server_);
        if (!server) {
            client.close_with_reset();
            return;
        }
        connections_.emplace_back(std::move(client), std::move(*server));
        const std::lock_guard lock(mutex_);
        ++counted_.connections;
        ++counted_.open;
        changed_.notify_all();
    }

    void move(tcp_connection& each)
    {
        const auto now = std::chrono::steady_clock::now();
        const auto moved = each.move(now, {delay_to_server_, delay_to_client_}, loss_);
        const std::lock_guard lock(mutex_);
        counted_.bytes_to_server += moved.to_server;
        counted_.bytes_to_client += moved.to_client;
        counted_.requests_lost += moved.lost_request ? 1U : 0U;
        counted_.replies_lost += moved.lost_reply ? 1U : 0U;
        changed_.notify_all();
    }

    /// Closes what has ended, after it is counted: who sees the end finds it in the numbers.
    void bury()
    {
        const auto ended = [](const auto& each) { return each.ended(); };
        {
            const std::lock_guard lock(mutex_);
            counted_.open -= static_cast<std::size_t>(
                std::count_if(connections_.begin(), connections_.end(), ended));
            changed_.notify_all();
        }
        connections_.remove_if(ended);
    }

    void do_tasks()
    {
        std::uint64_t ignored = 0;
        (void)!::read(alarm_.number(), &ignored, sizeof ignored); // it only woke us
        std::deque<std::packaged_task<void()>> tasks;
        {
            const std::lock_guard lock(mutex_);
            tasks.swap(tasks_);
        }
        for (auto& each : tasks)
            each();
    }

    const sockaddr_in server_;
    const socket place_; // keeps the port ours while nobody listens on it
    const std::uint16_t port_;
    socket listener_;
    const socket alarm_;

    std::list<tcp_connection> connections_;
    std::optional<planned_loss> loss_;
    std::chrono::milliseconds delay_to_server_{0};
    std::chrono::milliseconds delay_to_client_{0};
    bool stalled_ = false;
    bool over_ = false;

    mutable std::mutex mutex_; // guards what follows
    mutable std::condition_variable changed_;
    counters counted_;
    std::deque<std::packaged_task<void()>> tasks_;

    std::thread thread_; // last: it uses everything above
};

tcp_gate::tcp_gate(const std::string& address, std::uint16_t port)
    : loop_(std::make_unique<loop>(address, port))
{}

tcp_gate::~tcp_gate() = default;

std::uint16_t tcp_gate::port() const
{
    return loop_->port();
}

void tcp_gate::cut(ending how)
{
    loop_->ask([this, how] { loop_->cut(how); });
}

void tcp_gate::refuse(bool refusing)
{
    loop_->ask([this, refusing] { loop_->refuse(refusing); });
}

void tcp_gate::stall(bool stalling)
{
    loop_->ask([this, stalling] { loop_->stall(stalling); });
}

void tcp_gate::delay(direction which, std::chrono::milliseconds by)
{
    loop_->ask([this, which, by] { loop_->delay(which, by); });
}

void tcp_gate::lose_request(std::string request, ending how)
{
    loop_->ask([&] {
        loop_->lose(planned_loss{.request = std::move(request),
                                 .with_reset = how == ending::reset,
                                 .of_the_reply = false});
    });
}

void tcp_gate::lose_reply(std::string request, std::string answer, ending how)
{
    loop_->ask([&] {
        loop_->lose(planned_loss{.request = std::move(request),
                                 .answer = std::move(answer),
                                 .with_reset = how == ending::reset,
                                 .of_the_reply = true});
    });
}

void tcp_gate::lose_nothing()
{
    loop_->ask([&] { loop_->lose(std::nullopt); });
}

tcp_gate::counters tcp_gate::seen() const
{
    return loop_->seen();
}

bool tcp_gate::wait_for(const std::function<bool(const counters&)>& enough,
                        std::chrono::milliseconds at_most) const
{
    return loop_->wait_for(enough, at_most);
}

} // namespace posthorn::test
