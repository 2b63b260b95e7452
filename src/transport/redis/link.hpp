// One connection to a Redis server that never blocks longer than it is allowed to: commands go out
// one after the other without waiting, and replies come back in their order.
#pragma once

#include "transport/redis/address.hpp"
#include "transport/wire/pauses.hpp"
#include "transport/wire/wake_up.hpp"
#include <posthorn/environment.hpp>

#include <hiredis/hiredis.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::transports {

/// Commands in the form in which they are sent.
class redis_commands {
public:
    void begin(std::size_t arguments); ///< a command; then so many arguments
    void add(std::string_view argument);
    void add_number(std::int64_t argument);

    redis_commands& command(std::initializer_list<std::string_view> arguments);

    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    void clear();

private:
    void line(char kind, std::size_t number);

    std::string text_;
    std::size_t count_ = 0;
};

struct redis_reply_deleter {
    void operator()(redisReply* which) const noexcept { freeReplyObject(which); }
};
using redis_reply = std::unique_ptr<redisReply, redis_reply_deleter>;

[[nodiscard]] std::string_view text_of(const redisReply& reply);
[[nodiscard]] bool is_error(const redisReply& reply);

/// Threads: one at a time.
class redis_link {
public:
    redis_link(redis_address where, const environment& surroundings, std::string shown_as);

    [[nodiscard]] bool is_open() const noexcept { return context_ != nullptr && !opening_; }

    /// Connects, and rests between attempts until it works. False: it is not open, because the time
    /// is over or `enough` says so; `problem` tells why. The next call takes up the attempt that is
    /// under way: many short calls come as far as a long one.
    template <typename Enough>
    bool open(const allowance& how_long, Enough enough)
    {
        while (!is_open() && !how_long.is_over() && !enough()) {
            if (opening_)
                go_on_opening(how_long.until);
            else if (std::chrono::steady_clock::now() >= resting_until_)
                begin_to_open();
            else
                (void)wake_.wait(-1, 0, std::min(how_long.until, resting_until_));
        }
        return is_open();
    }

    void send(const redis_commands& what);

    /// How many commands have no reply yet.
    [[nodiscard]] std::size_t owed() const noexcept { return owed_; }

    /// The next reply. Empty: the time is over, it was woken, or the connection is lost.
    [[nodiscard]] redis_reply next(steady_time until);

    /// Ends the connection; what was not sent is thrown away.
    void drop(const std::string& why);

    [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
    [[nodiscard]] const wake_up& wake() const noexcept { return wake_; }

private:
    struct context_deleter {
        void operator()(redisContext* which) const noexcept { redisFree(which); }
    };

    /// An attempt to connect, from the first packet until the server knows who we are.
    struct attempt {
        steady_time until;        ///< else it has failed
        std::size_t greeted = 0;  ///< so many replies to our greeting must come; 0: not sent yet
        std::size_t answered = 0; ///< of these
        std::size_t naming = 0;   ///< which of them is about our name
    };

    void begin_to_open();
    void go_on_opening(steady_time until);
    void greet();
    void take_greeting(steady_time until);
    void fail_to_open(const std::string& why);
    void forget_connection(const std::string& why);
    void warn(std::string_view words);
    bool flush();
    bool receive();

    redis_address where_;
    environment surroundings_;
    std::string shown_as_;
    wake_up wake_;
    std::unique_ptr<redisContext, context_deleter> context_;
    std::optional<attempt> opening_; ///< what the connection is for, until it is open
    growing_pause pause_;
    steady_time resting_until_{};
    steady_time heard_at_{}; ///< or began to wait for a reply
    std::size_t owed_ = 0;
    std::string output_; ///< what the socket has not taken yet
    bool warned_ = false;
    std::string problem_ = "not connected yet";
};

} // namespace posthorn::transports
