// libnats with an event loop of ours: it gives us its socket, and says when it wants to write.
#include "transport/nats/link.hpp"

#include <fmt/format.h>

#include <exception>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

namespace posthorn::transports {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto first_rest = 20ms;
constexpr auto longest_rest = 2s;
constexpr auto farewell = 200ms; // for what was published just before the end

std::string last_problem(natsStatus status)
{
    natsStatus last = NATS_OK;
    const char* text = nats_GetLastError(&last);
    return text == nullptr || *text == '\0' ? natsStatus_GetText(status) : text;
}

// With TLS libnats waits until the socket takes what it has to write, with its lock held and
// without an end. So the system ends a connection whose bytes nobody takes.
void limit_sending(int socket, std::chrono::milliseconds length)
{
    const auto limit = static_cast<unsigned int>(length.count());
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

} // namespace

std::string_view payload_of(natsMsg& message)
{
    return {natsMsg_GetData(&message), static_cast<std::size_t>(natsMsg_GetDataLength(&message))};
}

std::string_view status_of(natsMsg& message)
{
    if (natsMsg_GetDataLength(&message) > 0)
        return {};
    const char* value = nullptr;
    return natsMsgHeader_Get(&message, "Status", &value) == NATS_OK && value != nullptr
               ? std::string_view{value}
               : std::string_view{};
}

nats_connection::nats_connection(natsConnection* of, std::string inbox)
    : of_(of), inbox_(std::move(inbox))
{}

nats_connection::~nats_connection()
{
    natsConnection_Destroy(of_);
}

bool nats_connection::publish(const std::string& subject, const std::string& reply,
                              std::string_view data)
{
    const auto size = static_cast<int>(data.size());
    const auto status =
        reply.empty()
            ? natsConnection_Publish(of_, subject.c_str(), data.data(), size)
            : natsConnection_PublishRequest(of_, subject.c_str(), reply.c_str(), data.data(), size);
    return status == NATS_OK;
}

bool nats_connection::answers_within(duration length)
{
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(length);
    return natsConnection_FlushTimeout(of_, limit.count()) == NATS_OK;
}

std::size_t nats_connection::payload_bytes_max() const
{
    return static_cast<std::size_t>(natsConnection_GetMaxPayload(of_));
}

nats_link::nats_link(const nats_settings& settings, const environment& surroundings,
                     nats_listener& listener)
    : surroundings_(surroundings),
      listener_(listener),
      shown_as_("the NATS server " + settings.shown()),
      send_within_(std::chrono::ceil<std::chrono::milliseconds>(2 * settings.ping_every)),
      options_(options_from(settings)),
      pause_(surroundings.random, first_rest, longest_rest)
{
    natsOptions_SetEventLoop(options_.get(), this, &attach, &on_read, &on_write, &detach);
    natsOptions_SetErrorHandler(
        options_.get(),
        [](natsConnection*, natsSubscription*, natsStatus status, void* self) {
            auto& link = *static_cast<nats_link*>(self);
            link.guarded([&] { link.listener_.on_error(last_problem(status)); });
        },
        this);
    natsOptions_SetClosedCB(
        options_.get(),
        [](natsConnection*, void* self) { static_cast<nats_link*>(self)->called_last(); }, this);
    thread_ = std::jthread([this] { run(); });
}

nats_link::~nats_link()
{
    stop();
}

// Nothing may be thrown through libnats, which is written in C: it would end the process. What
// somebody else has sent us is no reason for that.
template <typename Function>
void nats_link::guarded(Function what) noexcept
{
    try {
        what();
    } catch (const std::exception& thrown) {
        log_mistake(thrown.what());
    } catch (...) {
        log_mistake("something unknown was thrown");
    }
}

void nats_link::log_mistake(std::string_view what) noexcept
{
    try {
        if (surroundings_.log)
            surroundings_.log(
                log_level::error,
                fmt::format("{}: what it sent was not understood: {}", shown_as_, what));
    } catch (...) { // a log that does not work, and nobody who could be told
    }
}

void nats_link::ask_to_stop()
{
    stopping_ = true;
    wake_.ring();
}

void nats_link::stop()
{
    ask_to_stop();
    if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id())
        thread_.join();
}

void nats_link::let_go()
{
    if (--holders_ == 0 && wants_write_)
        wake_.ring();
}

natsStatus nats_link::attach(void** user, void* loop, natsConnection* /*of*/, natsSock socket)
{
    auto& self = *static_cast<nats_link*>(loop);
    *user = loop;
    self.wants_write_ = false;
    self.socket_ = socket;
    limit_sending(socket, self.send_within_);
    return NATS_OK;
}

natsStatus nats_link::on_read(void* user, bool wanted)
{
    auto& self = *static_cast<nats_link*>(user);
    if (!wanted) {
        self.socket_ = -1;
        self.wake_.ring();
    }
    return NATS_OK;
}

natsStatus nats_link::on_write(void* user, bool wanted)
{
    auto& self = *static_cast<nats_link*>(user);
    self.wants_write_ = wanted;
    if (wanted && self.holders_ == 0)
        self.wake_.ring();
    return NATS_OK;
}

natsStatus nats_link::detach(void* /*user*/)
{
    return NATS_OK;
}

void nats_link::run()
{
    while (!stopping_) {
        if (const auto connection = connect()) {
            const auto answers = listen(*connection);
            if (answers != nullptr) {
                if (std::exchange(warned_, false) && surroundings_.log)
                    surroundings_.log(log_level::info, shown_as_ + " is back");
                listener_.on_up(connection);
                serve(*connection);
            }
            const char* text = nullptr;
            (void)natsConnection_GetLastError(connection->handle(), &text);
            const std::string why =
                text == nullptr || *text == '\0' ? "the connection is lost" : text;
            end(*connection);
            tell_problem(why);
        }
        const auto until = steady_clock::now() + pause_.next();
        while (!stopping_ && steady_clock::now() < until)
            (void)wake_.wait(-1, 0, until);
    }
}

std::shared_ptr<nats_connection> nats_link::connect()
{
    natsConnection* made = nullptr;
    if (const auto status = natsConnection_Connect(&made, options_.get()); status != NATS_OK) {
        tell_problem(last_problem(status));
        return nullptr;
    }
    {
        const std::lock_guard lock(mutex_);
        ++still_calls_;
    }
    natsInbox* inbox = nullptr;
    if (natsInbox_Create(&inbox) != NATS_OK) {
        natsConnection_Destroy(made);
        return nullptr;
    }
    std::string prefix = std::string(inbox) + ".";
    natsInbox_Destroy(inbox);
    return std::make_shared<nats_connection>(made, std::move(prefix));
}

// The answers come on a thread of libnats.
nats_subscription nats_link::listen(nats_connection& connection)
{
    natsSubscription* made = nullptr;
    const auto all = connection.inbox() + "*";
    const auto status = natsConnection_Subscribe(
        &made, connection.handle(), all.c_str(),
        [](natsConnection*, natsSubscription*, natsMsg* message, void* self) {
            const nats_message held(message);
            auto& link = *static_cast<nats_link*>(self);
            link.guarded([&] { link.listener_.on_message(*message); });
        },
        this);
    nats_subscription result(made);
    if (status != NATS_OK)
        return nullptr;
    natsSubscription_SetPendingLimits(made, -1, -1);
    const std::lock_guard lock(mutex_);
    const auto told = natsSubscription_SetOnCompleteCB(
        made, [](void* self) { static_cast<nats_link*>(self)->called_last(); }, this);
    if (told != NATS_OK)
        return nullptr;
    ++still_calls_;
    return result;
}

void nats_link::called_last()
{
    const std::lock_guard lock(mutex_);
    --still_calls_;
    ended_.notify_all();
}

void nats_link::serve(nats_connection& connection)
{
    const auto opened_at = steady_clock::now();
    while (!stopping_ && !natsConnection_IsClosed(connection.handle())) {
        const bool may_write = wants_write_ && holders_ == 0;
        const auto wanted = static_cast<short>(may_write ? POLLIN | POLLOUT : POLLIN);
        const auto can = wake_.wait(socket_, wanted, steady_clock::now() + 60s);
        if ((can & ~POLLOUT) != 0)
            natsConnection_ProcessReadEvent(connection.handle());
        if ((can & POLLOUT) != 0)
            natsConnection_ProcessWriteEvent(connection.handle());
    }
    if (steady_clock::now() - opened_at > longest_rest)
        pause_.start_over(); // not for one that ends as soon as it begins
    if (stopping_)
        write_what_is_left(connection);
}

void nats_link::write_what_is_left(nats_connection& connection) const
{
    const auto until = steady_clock::now() + farewell;
    while (wants_write_ && !natsConnection_IsClosed(connection.handle()) &&
           steady_clock::now() < until)
        if ((wake_.wait(socket_, POLLOUT, until) & POLLOUT) != 0)
            natsConnection_ProcessWriteEvent(connection.handle());
}

// Afterwards libnats has called us for the last time.
void nats_link::end(nats_connection& connection)
{
    natsConnection_Close(connection.handle());
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return still_calls_ == 0; });
}

void nats_link::tell_problem(const std::string& what)
{
    if (!stopping_ && !std::exchange(warned_, true) && surroundings_.log)
        surroundings_.log(log_level::warning,
                          fmt::format("{} cannot be reached: {}", shown_as_, what));
    listener_.on_down(what);
}

} // namespace posthorn::transports
