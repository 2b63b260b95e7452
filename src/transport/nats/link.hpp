// A connection to a NATS server, and a thread that reads from it and writes to it. Whoever
// publishes never waits for the network: libnats keeps the bytes, and the thread sends them.
#pragma once

#include "transport/nats/settings.hpp"
#include "transport/wire/pauses.hpp"
#include "transport/wire/wake_up.hpp"
#include <posthorn/environment.hpp>

#include <nats/nats.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace posthorn::transports {

struct nats_message_deleter {
    void operator()(natsMsg* which) const noexcept { natsMsg_Destroy(which); }
};
using nats_message = std::unique_ptr<natsMsg, nats_message_deleter>;

struct nats_subscription_deleter {
    void operator()(natsSubscription* which) const noexcept { natsSubscription_Destroy(which); }
};
using nats_subscription = std::unique_ptr<natsSubscription, nats_subscription_deleter>;

[[nodiscard]] std::string_view payload_of(natsMsg& message);

/// The status of a message that is none, such as "503"; empty: it has no status.
[[nodiscard]] std::string_view status_of(natsMsg& message);

/// One connection, from its beginning to its end.
class nats_connection {
public:
    nats_connection(natsConnection* of, std::string inbox);
    nats_connection(const nats_connection&) = delete;
    nats_connection& operator=(const nats_connection&) = delete;
    ~nats_connection();

    /// False: it is closed, and nothing was sent.
    bool publish(const std::string& subject, const std::string& reply, std::string_view data);
    [[nodiscard]] natsStatus publish(natsMsg& what)
    {
        return natsConnection_PublishMsg(of_, &what);
    }

    /// Whether the server is there, by asking it.
    [[nodiscard]] bool answers_within(duration length);

    /// Where answers come to: this and one more part.
    [[nodiscard]] const std::string& inbox() const noexcept { return inbox_; }
    [[nodiscard]] std::size_t payload_bytes_max() const;
    [[nodiscard]] natsConnection* handle() const noexcept { return of_; }

private:
    natsConnection* of_;
    std::string inbox_;
};

/// What a link tells whoever uses it.
class nats_listener {
public:
    virtual ~nats_listener() = default;
    virtual void on_up(std::shared_ptr<nats_connection> connection) = 0;
    virtual void on_message(natsMsg& message) = 0;      ///< to the inbox
    virtual void on_down(const std::string& why) = 0;   ///< or it cannot be reached
    virtual void on_error(const std::string& text) = 0; ///< such as a violation; from any thread
};

class nats_link {
public:
    nats_link(const nats_settings& settings, const environment& surroundings,
              nats_listener& listener);
    nats_link(const nats_link&) = delete;
    nats_link& operator=(const nats_link&) = delete;
    ~nats_link();

    /// Ends the connection after what was published is sent. Repeating it is harmless. Threads: one
    /// at a time.
    void stop();

    /// The same, without waiting for it. Threads: from any.
    void ask_to_stop();

    /// Between the two nothing is sent, so that it goes out together.
    void hold() { ++holders_; }
    void let_go();

private:
    static natsStatus attach(void** user, void* loop, natsConnection* of, natsSock socket);
    static natsStatus on_read(void* user, bool wanted);
    static natsStatus on_write(void* user, bool wanted);
    static natsStatus detach(void* user);

    void run();
    [[nodiscard]] std::shared_ptr<nats_connection> connect();
    [[nodiscard]] nats_subscription listen(nats_connection& connection);
    void serve(nats_connection& connection);
    void write_what_is_left(nats_connection& connection) const;
    void end(nats_connection& connection);
    void tell_problem(const std::string& what);
    void called_last(); ///< by a part of libnats

    template <typename Function>
    void guarded(Function what) noexcept;
    void log_mistake(std::string_view what) noexcept;

    environment surroundings_;
    nats_listener& listener_;
    std::string shown_as_;
    std::chrono::milliseconds send_within_; // else the connection ends
    nats_options_handle options_;
    wake_up wake_;
    growing_pause pause_;
    std::atomic<bool> stopping_ = false;
    std::atomic<int> holders_ = 0;
    std::atomic<bool> wants_write_ = false;
    std::atomic<int> socket_ = -1;
    bool warned_ = false;

    std::mutex mutex_;
    std::condition_variable ended_;
    int still_calls_ = 0; // so many parts of libnats may call us
    std::jthread thread_; // last: it uses everything above
};

} // namespace posthorn::transports
