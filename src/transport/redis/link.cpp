// hiredis for the protocol, poll for the waiting.
#include "transport/redis/link.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

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

void redis_link::begin_to_open()
{
    opening_.emplace(attempt{.until = std::chrono::steady_clock::now() + where_.connect_within});
    context_.reset(redisConnectNonBlock(where_.host.c_str(), where_.port));
    if (context_ == nullptr)
        fail_to_open("there is no memory for a connection");
    else if (context_->err != 0)
        fail_to_open(context_->errstr);
}

// One step, or as much of it as there is time for.
void redis_link::go_on_opening(steady_time until)
{
    until = std::min(until, opening_->until);
    if (opening_->greeted > 0)
        take_greeting(until);
    else if (wake_.wait(context_->fd, POLLOUT, until) != 0)
        greet();
    else if (std::chrono::steady_clock::now() >= opening_->until)
        fail_to_open("no connection in time");
}

// The connection is there, or will never be: then says who we are.
void redis_link::greet()
{
    int failed = 0;
    socklen_t size = sizeof failed;
    ::getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) {
        fail_to_open(std::error_code(failed, std::generic_category()).message());
        return;
    }
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
    opening_->naming = hello.count();
    hello.command({"CLIENT", "SETNAME", where_.client_name});
    if (where_.database != 0)
        hello.command({"SELECT", std::to_string(where_.database)});
    hello.command({"PING"});
    opening_->greeted = hello.count();
    // Nobody may have looked for a while, which is not the server's fault.
    opening_->until = std::chrono::steady_clock::now() + where_.connect_within;
    send(hello);
}

void redis_link::take_greeting(steady_time until)
{
    const auto reply = next(until);
    if (!opening_)
        return; // it broke
    if (reply == nullptr) {
        if (std::chrono::steady_clock::now() >= opening_->until)
            fail_to_open("no answer in time");
        return;
    }
    const bool is_about_name = opening_->answered == opening_->naming;
    if (is_error(*reply) && !is_about_name) { // a name may be forbidden to us, which is no harm
        fail_to_open(std::string(text_of(*reply)));
        return;
    }
    if (++opening_->answered < opening_->greeted)
        return;
    opening_.reset();
    pause_.start_over();
    if (std::exchange(warned_, false) && surroundings_.log)
        surroundings_.log(log_level::info, fmt::format("{} is back", shown_as_));
    problem_.clear();
}

void redis_link::fail_to_open(const std::string& why)
{
    forget_connection(why);
    warn(fmt::format("{} cannot be reached: {}", shown_as_, problem_));
}

void redis_link::forget_connection(const std::string& why)
{
    problem_ = why.empty() ? "the connection is lost" : why;
    context_.reset();
    opening_.reset();
    owed_ = 0;
    output_.clear();
    resting_until_ = std::chrono::steady_clock::now() + pause_.next();
}

// Once, until it is open again.
void redis_link::warn(std::string_view words)
{
    if (!std::exchange(warned_, true) && surroundings_.log)
        surroundings_.log(log_level::warning, words);
}

void redis_link::send(const redis_commands& what)
{
    if (context_ == nullptr || what.count() == 0)
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
    while (context_ != nullptr) {
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
    if (opening_) {
        fail_to_open(why);
        return;
    }
    if (context_ == nullptr)
        return;
    // What is still in the kernel must not arrive later than what another connection sends.
    const linger at_once{1, 0};
    ::setsockopt(context_->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    forget_connection(why);
    warn(fmt::format("the connection to {} is lost: {}", shown_as_, problem_));
}

} // namespace posthorn::transports
