// hiredis for the protocol, poll for the waiting.
#include "transport/redis/link.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>

namespace posthorn::transports {
namespace {

constexpr auto first_pause = std::chrono::milliseconds{20};
constexpr auto longest_pause = std::chrono::seconds{2};

} // namespace

void redis_commands::line(char kind, std::size_t number)
{
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    text_.push_back(kind);
    text_.append(digits, end);
    text_.append("\r\n");
}

void redis_commands::begin(std::size_t arguments)
{
    line('*', arguments);
    ++count_;
}

void redis_commands::add(std::string_view argument)
{
    line('$', argument.size());
    text_.append(argument);
    text_.append("\r\n");
}

void redis_commands::add_number(std::int64_t argument)
{
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, argument).ptr;
    add({digits, static_cast<std::size_t>(end - digits)});
}

redis_commands& redis_commands::command(std::initializer_list<std::string_view> arguments)
{
    begin(arguments.size());
    for (const auto each : arguments)
        add(each);
    return *this;
}

void redis_commands::clear()
{
    text_.clear();
    count_ = 0;
}

std::string_view text_of(const redisReply& reply)
{
    return reply.str == nullptr ? std::string_view{} : std::string_view{reply.str, reply.len};
}

bool is_error(const redisReply& reply)
{
    return reply.type == REDIS_REPLY_ERROR;
}

redis_link::redis_link(redis_address where, const environment& surroundings, std::string shown_as)
    : where_(std::move(where)),
      surroundings_(surroundings),
      shown_as_(std::move(shown_as)),
      pause_(surroundings.random, first_pause, longest_pause)
{}

void redis_link::try_to_open(const allowance& how_long)
{
    const auto began = std::chrono::steady_clock::now();
    const auto until = std::min(how_long.until, began + where_.connect_within);
    context_.reset(redisConnectNonBlock(where_.host.c_str(), where_.port));
    auto failure = std::string("there is no memory for a connection");
    if (context_ != nullptr)
        failure =
            context_->err != 0 ? std::string(context_->errstr) : handshake(until, how_long.stop);
    if (failure.empty()) {
        pause_.start_over();
        if (warned_ && surroundings_.log)
            surroundings_.log(log_level::info, fmt::format("{} is back", shown_as_));
        warned_ = false;
        problem_.clear();
        return;
    }
    // A call that had no time says nothing about the server.
    const bool cut_short = how_long.is_over() && until == how_long.until;
    context_.reset();
    owed_ = 0;
    output_.clear();
    problem_ = failure;
    resting_until_ = std::chrono::steady_clock::now() + pause_.next();
    if (!warned_ && !cut_short && surroundings_.log)
        surroundings_.log(log_level::warning,
                          fmt::format("{} cannot be reached: {}", shown_as_, failure));
    warned_ = warned_ || !cut_short;
}

// Waits for the connection and says who we are. Returns: what went wrong.
std::string redis_link::handshake(steady_time until, const std::stop_token& stop)
{
    const auto is_late = [&] {
        return stop.stop_requested() || std::chrono::steady_clock::now() >= until;
    };
    while (wake_.wait(context_->fd, POLLOUT, until) == 0)
        if (is_late())
            return "no connection in time";
    int failed = 0;
    socklen_t size = sizeof failed;
    ::getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0)
        return std::error_code(failed, std::generic_category()).message();
    const int yes = 1;
    ::setsockopt(context_->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(context_->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    context_->flags |= REDIS_CONNECTED;
    context_->reader->maxbuf = std::size_t{1} << 20U; // else it is freed after each use

    redis_commands hello;
    const bool has_user = !where_.user.empty();
    if (!where_.password.empty() && has_user)
        hello.command({"AUTH", where_.user, where_.password});
    else if (!where_.password.empty())
        hello.command({"AUTH", where_.password});
    const auto naming = hello.count(); // may be forbidden to us, which is no harm
    hello.command({"CLIENT", "SETNAME", where_.client_name});
    if (where_.database != 0)
        hello.command({"SELECT", std::to_string(where_.database)});
    hello.command({"PING"});
    send(hello);
    for (std::size_t i = 0; i < hello.count();) {
        const auto reply = next(until);
        if (!is_open())
            return problem_;
        if (reply == nullptr && is_late())
            return "no answer in time";
        if (reply == nullptr)
            continue;
        if (is_error(*reply) && i != naming)
            return std::string(text_of(*reply));
        ++i;
    }
    return {};
}

void redis_link::send(const redis_commands& what)
{
    if (!is_open() || what.count() == 0)
        return;
    if (owed_ == 0)
        heard_at_ = std::chrono::steady_clock::now();
    owed_ += what.count();
    output_ += what.text();
    flush();
}

// hiredis itself would write without a word about signals, and a server that has gone would end the
// process with SIGPIPE.
bool redis_link::flush()
{
    std::size_t sent = 0;
    while (sent < output_.size()) {
        const auto some = ::send(context_->fd, output_.data() + sent, output_.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (some >= 0) {
            sent += static_cast<std::size_t>(some);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR) {
            drop(std::error_code(errno, std::generic_category()).message());
            return false;
        }
    }
    output_.erase(0, sent);
    return true;
}

bool redis_link::receive()
{
    if (redisBufferRead(context_.get()) != REDIS_OK) {
        drop(context_->errstr);
        return false;
    }
    heard_at_ = std::chrono::steady_clock::now();
    return true;
}

redis_reply redis_link::next(steady_time until)
{
    while (is_open()) {
        void* found = nullptr;
        if (redisGetReplyFromReader(context_.get(), &found) != REDIS_OK) {
            drop(context_->errstr);
            return nullptr;
        }
        if (found != nullptr) {
            owed_ -= owed_ > 0 ? 1 : 0;
            return redis_reply(static_cast<redisReply*>(found));
        }
        const auto patience = owed_ == 0 ? steady_time::max() : heard_at_ + where_.reply_within;
        const auto wanted = static_cast<short>(output_.empty() ? POLLIN : POLLIN | POLLOUT);
        const auto can = wake_.wait(context_->fd, wanted, std::min(until, patience));
        if (can == 0) {
            if (owed_ > 0 && std::chrono::steady_clock::now() >= patience)
                drop("no answer in time");
            return nullptr; // the caller looks at its time, and comes back
        }
        if ((can & POLLOUT) != 0 && !flush())
            return nullptr;
        if ((can & ~POLLOUT) != 0 && !receive())
            return nullptr;
    }
    return nullptr;
}

void redis_link::drop(const std::string& why)
{
    if (!is_open())
        return;
    problem_ = why.empty() ? "the connection is lost" : why;
    // What is still in the kernel must not arrive later than what another connection sends.
    const linger at_once{1, 0};
    ::setsockopt(context_->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    context_.reset();
    owed_ = 0;
    output_.clear();
    resting_until_ = std::chrono::steady_clock::now() + pause_.next();
    if (!warned_ && surroundings_.log)
        surroundings_.log(log_level::warning,
                          fmt::format("the connection to {} is lost: {}", shown_as_, problem_));
    warned_ = true;
}

} // namespace posthorn::transports
