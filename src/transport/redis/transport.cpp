// XADD after XADD without waiting; whoever publishes has the connection for that time.
#include "store/contract/url.hpp"
#include "transport/envelope.hpp"
#include "transport/redis/answers.hpp"
#include "transport/redis/link.hpp"
#include "transport/wire/outgoing.hpp"
#include <posthorn/error.hpp>
#include <posthorn/redis.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace posthorn {
namespace transports {
namespace {

using std::chrono::steady_clock;

constexpr auto pressed_pause = std::chrono::milliseconds{25};
constexpr auto pressed_pause_max = std::chrono::milliseconds{500};
constexpr std::size_t chunk_bytes = std::size_t{256} << 10U; // handed to the system at once

class redis_transport final : public transport {
public:
    redis_transport(redis_options how, redis_address where, const environment& surroundings)
        : how_(std::move(how)),
          name_(where.shown()),
          link_(std::move(where), surroundings, "the Redis server " + name_),
          pressed_(surroundings.random, pressed_pause, pressed_pause_max)
    {}

    using transport::close;
    using transport::publish;

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& how_long) override
    {
        if (what.empty())
            return {};
        const allowance allowed(how_long, how_.publish_within);
        const auto instead = take_turn(allowed);
        if (instead != refusal::none)
            return std::vector(what.size(), publish_answer::no(instead));
        const turn mine(*this);
        const std::stop_callback wake(how_long.stop, [this] { link_.wake().ring(); });
        flight now{what, outgoing(what)};
        run(now, allowed);
        if (how_.replicas > 0 && now.messages.any_accepted())
            wait_for_replicas(now, allowed);
        return std::move(now.messages).answers();
    }

    bool wait_until_ready(const time_limit& how_long) override
    {
        const allowance allowed(how_long, std::chrono::hours{24 * 365});
        if (take_turn(allowed) != refusal::none)
            return false;
        const turn mine(*this);
        const std::stop_callback wake(how_long.stop, [this] { link_.wake().ring(); });
        while (!allowed.is_over() && !is_closed()) {
            const auto reply = answer_to_ping(allowed);
            if (reply != nullptr && !is_error(*reply))
                return true;
            if (reply != nullptr)
                link_.drop(std::string(text_of(*reply)));
        }
        return false;
    }

    void close(const time_limit& how_long) override
    {
        std::unique_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
        link_.wake().ring(); // for whoever waits for a connection
        const auto is_free = [&] { return !taken_; };
        if (how_long.until)
            changed_.wait_until(lock, how_long.stop, steady_time(*how_long.until), is_free);
        else
            changed_.wait(lock, how_long.stop, is_free);
    }

    transport_capabilities capabilities() const override
    {
        return {.payload_bytes_max = how_.payload_bytes_max,
                .batch_max = how_.window,
                .confirms = true,
                .reports_unroutable = !how_.create_streams,
                .keeps_order = true};
    }

    std::string name() const override { return name_; }

private:
    struct flight {
        std::span<const transport_message> what;
        outgoing messages;
        std::deque<std::size_t> sent = {};     ///< in the order of the replies
        std::vector<std::size_t> pressed = {}; ///< were told to wait
        steady_time pressed_until = {};
        std::string pressed_why = {};
    };

    class turn {
    public:
        explicit turn(redis_transport& of) : of_(of) {}
        turn(const turn&) = delete;
        turn& operator=(const turn&) = delete;
        ~turn()
        {
            const std::lock_guard lock(of_.mutex_);
            of_.taken_ = false;
            of_.changed_.notify_all();
        }

    private:
        redis_transport& of_;
    };

    // Why it is not ours; none: it is.
    refusal take_turn(const allowance& allowed)
    {
        std::unique_lock lock(mutex_);
        changed_.wait_until(lock, allowed.stop, allowed.until, [&] { return closed_ || !taken_; });
        if (closed_)
            return refusal::closed;
        if (taken_)
            return refusal::busy;
        taken_ = true;
        return refusal::none;
    }

    bool is_closed()
    {
        const std::lock_guard lock(mutex_);
        return closed_;
    }

    // Connects, and waits for what is owed from before, so that replies find their messages.
    bool reach(const allowance& allowed)
    {
        if (!link_.open(allowed, [this] { return is_closed(); }))
            return false;
        while (link_.is_open() && link_.owed() > 0 && !allowed.is_over())
            (void)link_.next(allowed.until);
        if (!link_.is_open() || link_.owed() > 0)
            return false;
        ping_is_owed_ = false;
        return true;
    }

    // Also to one that an earlier call sent and had no time for: an answer from far away may take
    // longer than any call. Empty: none has come yet.
    redis_reply answer_to_ping(const allowance& allowed)
    {
        if (!link_.is_open() || !ping_is_owed_) {
            if (!reach(allowed))
                return nullptr;
            redis_commands ping;
            link_.send(ping.command({"PING"}));
            ping_is_owed_ = true;
        }
        redis_reply reply;
        while (link_.is_open() && link_.owed() > 0 && !allowed.is_over())
            if (auto next = link_.next(allowed.until))
                reply = std::move(next); // the last one is for the PING
        if (!link_.is_open() || link_.owed() > 0)
            return nullptr;
        ping_is_owed_ = false;
        return reply;
    }

    redis_reply answer_of_one(const allowance& allowed)
    {
        redis_reply reply;
        while (reply == nullptr && link_.is_open() && !allowed.is_over())
            reply = link_.next(allowed.until);
        return reply;
    }

    void run(flight& now, const allowance& allowed)
    {
        while (!allowed.is_over() && !reach(allowed) && !is_closed())
            ; // each attempt waits as long as it may
        if (allowed.is_over() || !link_.is_open()) {
            now.messages.give_up(not_sent(now), publish_answer::no_answer());
            return;
        }
        while (!now.messages.is_over()) {
            if (allowed.is_over() || !link_.is_open()) {
                now.messages.give_up(not_sent(now),
                                     publish_answer::no_answer(link_.is_open() ? "no answer in time"
                                                                               : link_.problem()));
                return;
            }
            send_ready(now);
            if (now.messages.is_over())
                return;
            const auto until =
                now.pressed.empty() ? allowed.until : std::min(allowed.until, now.pressed_until);
            if (const auto reply = link_.next(until))
                take(now, *reply);
            else
                send_again(now);
        }
    }

    void send_ready(flight& now)
    {
        commands_.clear();
        while (now.messages.has_ready() && now.sent.size() < how_.window) {
            const auto which = now.messages.take();
            const auto& message = now.what[which];
            if (message.payload.size() > how_.payload_bytes_max) {
                now.messages.settle(
                    which, publish_answer::no(refusal::too_large,
                                              fmt::format("the payload is {} bytes long; at most "
                                                          "{} are sent to Redis",
                                                          message.payload.size(),
                                                          how_.payload_bytes_max)));
                continue;
            }
            write(message);
            now.sent.push_back(which);
            if (commands_.text().size() >= chunk_bytes) {
                link_.send(commands_);
                commands_.clear();
                if (!link_.is_open())
                    return;
            }
        }
        link_.send(commands_);
    }

    void write(const transport_message& message)
    {
        const auto fields = words_.parts_of(message);
        commands_.begin(5 + fields.size() * 2 + (how_.create_streams ? 0U : 1U) +
                        (how_.entries_max ? 3U : 0U));
        commands_.add("XADD");
        commands_.add(stream_of(message));
        if (!how_.create_streams)
            commands_.add("NOMKSTREAM");
        if (how_.entries_max) {
            commands_.add("MAXLEN");
            commands_.add("~");
            commands_.add_number(static_cast<std::int64_t>(*how_.entries_max));
        }
        commands_.add("*");
        for (const auto& [name, value] : fields) {
            commands_.add(*name);
            commands_.add(*value);
        }
        commands_.add("payload"); // last, so that a header of this name does no harm
        commands_.add(message.payload);
    }

    [[nodiscard]] std::string stream_of(const transport_message& message) const
    {
        return how_.prefix + (message.destination.empty() ? message.topic : message.destination);
    }

    void take(flight& now, const redisReply& reply)
    {
        if (now.sent.empty()) { // then none of its replies can be trusted
            link_.drop("it replied to what nobody has asked");
            return;
        }
        const auto which = now.sent.front();
        now.sent.pop_front();
        if (reply.type == REDIS_REPLY_NIL) {
            now.messages.settle(
                which, publish_answer::no(refusal::unroutable,
                                          fmt::format("there is no stream '{}', and none is made",
                                                      stream_of(now.what[which]))));
            return;
        }
        if (!is_error(reply)) {
            pressed_.start_over();
            now.messages.settle(which, publish_answer::yes());
            return;
        }
        auto answer = redis_refusal(text_of(reply), stream_of(now.what[which]));
        if (answer.why == refusal::busy) {
            if (now.pressed.empty())
                now.pressed_until = steady_clock::now() + pressed_.next();
            now.pressed_why = std::move(answer.detail);
            now.pressed.push_back(which);
            now.messages.set_aside(which);
            return;
        }
        now.messages.settle(which, std::move(answer));
        // The replies that still come say the same; a connection made anew may lead elsewhere.
        if (speaks_of_server(text_of(reply)) && now.sent.empty())
            link_.drop(std::string(text_of(reply)));
    }

    static void send_again(flight& now)
    {
        if (now.pressed.empty() || steady_clock::now() < now.pressed_until)
            return;
        for (const auto each : now.pressed)
            now.messages.make_ready(each);
        now.pressed.clear();
    }

    [[nodiscard]] publish_answer not_sent(const flight& now)
    {
        if (!now.pressed.empty())
            return publish_answer::no(refusal::busy, now.pressed_why);
        if (is_closed() && now.sent.empty())
            return publish_answer::no(refusal::closed);
        if (!link_.is_open())
            return publish_answer::no(refusal::unavailable, link_.problem());
        return publish_answer::no(refusal::busy, "there was no time left");
    }

    // WAIT counts the replicas that have everything this connection has written.
    void wait_for_replicas(flight& now, const allowance& allowed)
    {
        if (link_.is_open() && link_.owed() == 0) {
            commands_.clear();
            commands_.begin(3);
            commands_.add("WAIT");
            commands_.add_number(how_.replicas);
            commands_.add_number(
                std::chrono::ceil<std::chrono::milliseconds>(how_.replicas_within).count());
            link_.send(commands_);
            const auto reply = answer_of_one(allowed);
            if (reply != nullptr && reply->type == REDIS_REPLY_INTEGER &&
                reply->integer >= how_.replicas)
                return;
            if (reply != nullptr) {
                now.messages.doubt(publish_answer::no_answer(
                    fmt::format("{} of {} replicas have it", reply->integer, how_.replicas)));
                return;
            }
        }
        now.messages.doubt(publish_answer::no_answer("nobody said how many replicas have it"));
    }

    redis_options how_;
    std::string name_;
    redis_link link_;                          // whoever has the turn uses it
    bool ping_is_owed_ = false;                // the same: the last reply that this connection owes
    growing_pause pressed_;                    // the same
    redis_commands commands_;                  // the same
    envelope_writer words_{no_attributes, {}}; ///< of the message in the making

    std::mutex mutex_;
    std::condition_variable_any changed_;
    bool taken_ = false;
    bool closed_ = false;
};

} // namespace
} // namespace transports

void check_redis(const redis_options& how)
{
    const auto refuse = [](std::string why) { throw error(error_code::invalid_argument, why); };
    (void)transports::redis_address::parse(how.url);
    if (how.window == 0)
        refuse("the window of a Redis transport must be at least 1 message");
    if (how.payload_bytes_max == 0 || how.payload_bytes_max > std::size_t{512} << 20U)
        refuse("payload_bytes_max of a Redis transport must be 1 … 512 MiB, which is what Redis "
               "takes");
    if (how.entries_max && *how.entries_max == 0)
        refuse("entries_max of a Redis transport must be at least 1; without it all entries stay");
    if (how.connect_within <= duration::zero() || how.reply_within <= duration::zero() ||
        how.publish_within <= duration::zero() || how.replicas_within <= duration::zero())
        refuse("the time limits of a Redis transport must be longer than nothing");
}

std::shared_ptr<transport> open_redis(redis_options how, environment surroundings)
{
    check_redis(how);
    auto where = transports::redis_address::parse(how.url);
    where.client_name = how.client_name;
    where.connect_within = how.connect_within;
    where.reply_within = how.reply_within;
    how.url.clear(); // it may hold a password
    return std::make_shared<transports::redis_transport>(std::move(how), std::move(where),
                                                         surroundings);
}

} // namespace posthorn
