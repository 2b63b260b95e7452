// A durable consumer's messages, asked for in batches. They are acknowledged by their own reply
// subjects, so what was handed over before an interruption can be answered after it.
#include "core/trace_context.hpp"
#include "transport/envelope.hpp"
#include "transport/nats/catching_up.hpp"
#include "transport/nats/link.hpp"
#include "transport/nats/reply_subject.hpp"
#include <posthorn/error.hpp>
#include <posthorn/nats.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace posthorn {
namespace transports {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

// Then the server says that nothing came.
constexpr std::chrono::nanoseconds pull_for = catching_up::request_time_max;
constexpr std::chrono::nanoseconds heartbeat = 2s; // and so often that it still knows of it
constexpr auto silence_max = 3 * heartbeat;        // after which it does not
constexpr auto rest_without_consumer = 1s;
constexpr auto rest_for_others = 200ms;
constexpr std::chrono::nanoseconds gather_for = 1s; // what is there comes at once
constexpr std::size_t gather_max = 1'000;           // at a time
constexpr auto unsure_for = 5s; // an answer younger than that may be lost with its connection
constexpr auto refused_pause = 60s;
constexpr auto answer_within = 5s; // what the server knows, it knows at once
constexpr std::uint64_t no_such_consumer = 10'014;
constexpr std::string_view acknowledged = "+ACK";
constexpr std::string_view terminated = "+TERM";

// Of an object that a server sent, which may be anything; zero: it has no such number.
std::uint64_t number_in(const nlohmann::json& object, const char* name)
{
    const auto found = object.find(name);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text_in(const nlohmann::json& object, const char* name)
{
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

nlohmann::json object_in(const nlohmann::json& object, const char* name)
{
    const auto found = object.find(name);
    return found != object.end() && found->is_object() ? *found : nlohmann::json::object();
}

class nats_feed final : public feed, private nats_listener {
public:
    nats_feed(nats_feed_options how, const nats_settings& settings, const environment& surroundings)
        : how_(std::move(how)),
          name_(fmt::format("{} stream {} consumer {}", settings.shown(), how_.stream,
                            how_.consumer)),
          log_(surroundings.log),
          api_(how_.domain.empty() ? "$JS.API." : fmt::format("$JS.{}.API.", how_.domain))
    {
        link_ =
            std::make_unique<nats_link>(settings, surroundings, static_cast<nats_listener&>(*this));
    }

    ~nats_feed() override { close(); }

    std::vector<fed_message> receive(std::size_t at_most, const time_limit& how_long) override
    {
        const allowance allowed(how_long, std::chrono::hours{24 * 365});
        std::unique_lock lock(mutex_);
        while (at_most > 0 && !closed_) {
            if (can_hand_over())
                return handed_over(at_most);
            if (allowed.is_over())
                break;
            ask(at_most);
            const auto until =
                connection_ == nullptr ? allowed.until : std::min(allowed.until, ask_again_at_);
            changed_.wait_until(lock, allowed.stop, until, [&, before = changes_] {
                return closed_ || can_hand_over() || changes_ != before;
            });
        }
        return {};
    }

    void acknowledge(std::span<const std::uint64_t> tickets) override
    {
        answer(tickets, std::string(acknowledged));
    }

    void give_back(std::span<const std::uint64_t> tickets, duration pause) override
    {
        answer(tickets, not_now(pause));
    }

    // A stream that keeps only what somebody still wants removes what is terminated.
    void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) override
    {
        if (tickets.empty())
            return;
        const bool stays = stays_in_stream_;
        say(log_level::warning,
            fmt::format("{} messages {}: {}", tickets.size(),
                        stays ? "stay in the stream and do not come again"
                              : "are put back, since the stream would remove them",
                        reason));
        answer(tickets, stays ? std::string(terminated) : not_now(refused_pause));
    }

    void close() override
    {
        std::unique_lock lock(mutex_);
        if (std::exchange(closed_, true))
            return;
        // So that they come again at once, and not when their time is over; in their order.
        for (const auto& [ticket, reply] : tickets_)
            send_answer(reply, "-NAK");
        give_waiting_back();
        tickets_.clear();
        connection_.reset();
        changed_.notify_all();
        lock.unlock();
        link_->ask_to_stop();
    }

    std::string name() const override { return name_; }

private:
    enum class phase { meeting, gathering, reading };

    static std::string not_now(duration pause)
    {
        const auto length = std::chrono::duration_cast<std::chrono::nanoseconds>(pause).count();
        return fmt::format(R"(-NAK {{"delay": {}}})", std::max<std::int64_t>(length, 0));
    }

    [[nodiscard]] bool can_hand_over() const
    {
        return !waiting_.empty() && phase_ == phase::reading;
    }

    // Asks the server for messages, or for a consumer, unless it has been asked already.
    void ask(std::size_t at_most)
    {
        const auto now = steady_clock::now();
        if (connection_ == nullptr || now < ask_again_at_)
            return;
        if (asked_ && phase_ == phase::gathering)
            give_up_gathering();
        else if (asked_)
            begin_again(); // nobody says that the consumer of a request has gone
        if (phase_ == phase::meeting) {
            request("CONSUMER.INFO", "i", {});
            ask_again_at_ = now + answer_within;
            return;
        }
        asked_ = had_asked_ = true;
        ++pull_;
        nlohmann::json wanted;
        if (phase_ == phase::gathering) {
            left_ = std::min({elsewhere_, gather_max, batch_max_});
            wanted = {{"no_wait", true}, {"expires", gather_for.count()}};
            ask_again_at_ = now + 2 * gather_for;
        } else {
            left_ = std::min(at_most, batch_max_);
            wanted = {{"expires", pull_for.count()}, {"idle_heartbeat", heartbeat.count()}};
            ask_again_at_ = now + silence_max;
        }
        wanted["batch"] = left_;
        request("CONSUMER.MSG.NEXT", fmt::format("p{}", pull_), wanted.dump());
    }

    // Nobody has said that there was no more to gather.
    void give_up_gathering()
    {
        phase_ = phase::meeting;
        asked_ = false;
    }

    // What was on its way may be lost.
    void begin_again()
    {
        others_.begin(steady_clock::now(), std::exchange(had_asked_, false));
        phase_ = phase::meeting;
        asked_ = false;
    }

    // Its answer comes to `about`.
    void request(std::string_view what, std::string_view about, std::string_view body)
    {
        (void)connection_->publish(
            fmt::format("{}{}.{}.{}", api_, what, how_.stream, how_.consumer),
            fmt::format("{}{}", connection_->inbox(), about), body);
    }

    void ask_for_consumer()
    {
        nlohmann::json config{{"durable_name", how_.consumer},
                              {"ack_policy", "explicit"},
                              {"deliver_policy", "all"},
                              {"replay_policy", "instant"},
                              {"max_deliver", -1},
                              {"ack_wait", std::chrono::nanoseconds(how_.ack_wait).count()}};
        if (!how_.filter.empty())
            config["filter_subject"] = how_.filter;
        const nlohmann::json wanted{{"stream_name", how_.stream}, {"config", config}};
        request("CONSUMER.DURABLE.CREATE", "c", wanted.dump());
        ask_again_at_ = steady_clock::now() + answer_within;
    }

    std::vector<fed_message> handed_over(std::size_t at_most)
    {
        std::vector<fed_message> result;
        while (!waiting_.empty() && result.size() < at_most) {
            auto& [reply, message] = waiting_.front();
            message.ticket = ++last_ticket_;
            tickets_.emplace(message.ticket, std::move(reply));
            result.push_back(std::move(message));
            waiting_.pop_front();
        }
        return result;
    }

    void answer(std::span<const std::uint64_t> tickets, const std::string& what)
    {
        link_->hold();
        {
            const std::lock_guard lock(mutex_);
            for (const auto each : tickets)
                if (const auto found = tickets_.find(each); found != tickets_.end()) {
                    send_answer(found->second, what);
                    unsure_.push_back({steady_clock::now(), std::move(found->second), what});
                    tickets_.erase(found);
                }
            forget_answers();
        }
        link_->let_go();
    }

    void send_answer(const std::string& reply, std::string_view what)
    {
        if (connection_ != nullptr)
            (void)connection_->publish(reply, {}, what);
    }

    // Those that have arrived by now, or would have broken the connection.
    void forget_answers()
    {
        while (connection_ != nullptr && !unsure_.empty() &&
               unsure_.front().at + unsure_for < steady_clock::now())
            unsure_.pop_front();
    }

    void give_waiting_back()
    {
        for (const auto& [reply, message] : waiting_)
            send_answer(reply, "-NAK");
        if (!std::exchange(waiting_, {}).empty())
            others_.given_back();
    }

    void on_up(std::shared_ptr<nats_connection> connection) override
    {
        const std::lock_guard lock(mutex_);
        if (closed_)
            return;
        connection_ = std::move(connection);
        for (auto& each : unsure_) { // a second answer does no harm
            send_answer(each.reply, each.what);
            each.at = steady_clock::now();
        }
        // A server that was killed may have forgotten to whom it gave them, and give older ones
        // now.
        give_waiting_back();
        begin_again();
        look_again({});
        (void)connection_->publish(fmt::format("{}STREAM.INFO.{}", api_, how_.stream),
                                   connection_->inbox() + "s", {});
    }

    void on_down(const std::string& /*why*/) override
    {
        const std::lock_guard lock(mutex_);
        connection_.reset();
        look_again({});
    }

    void look_again(duration after)
    {
        ask_again_at_ = steady_clock::now() + after;
        asked_ = false;
        ++changes_;
        changed_.notify_all();
    }

    void on_message(natsMsg& message) override
    {
        const std::lock_guard lock(mutex_);
        if (closed_ || connection_ == nullptr)
            return;
        take(message);
        changed_.notify_all();
    }

    void take(natsMsg& message)
    {
        const auto* reply = natsMsg_GetReply(&message);
        if (reply != nullptr && std::string_view(reply).starts_with("$JS.ACK.")) {
            waiting_.emplace_back(reply, message_in(message, reply));
            problem_.clear();
            if (delivery_in(reply) == 1)
                saw_new_ = true;
            if (left_ > 0 && --left_ == 0)
                end_request();
            else if (phase_ != phase::gathering)
                ask_again_at_ = steady_clock::now() + silence_max;
            return;
        }
        const std::string_view subject = natsMsg_GetSubject(&message);
        const auto about = subject.substr(std::min(subject.size(), connection_->inbox().size()));
        if (about == "i")
            take_consumer(payload_of(message), how_.create_consumer);
        else if (about == "c")
            take_consumer(payload_of(message), false);
        else if (about == "s")
            take_stream(payload_of(message));
        else if (about == fmt::format("p{}", pull_))
            take_status(message);
    }

    // Nothing came in time (404, 408), nobody is there (503), or the consumer says no (409): it may
    // have been removed.
    void take_status(natsMsg& message)
    {
        const auto status = status_of(message);
        if (status == "100") {
            ask_again_at_ = steady_clock::now() + silence_max;
            return;
        }
        const char* words = nullptr;
        (void)natsMsgHeader_Get(&message, "Description", &words);
        const std::string_view why = words == nullptr ? "the consumer says no" : words;
        if (why.find("MaxRequestBatch") != why.npos && batch_max_ > 1) {
            batch_max_ = std::max<std::size_t>(std::min(left_, batch_max_) / 2, 1);
            look_again({});
        } else if (status != "503" && status != "409") {
            saw_new_ = true; // there is nothing left
            end_request();
        } else {
            begin_again();
            complain(std::string(why));
            look_again(rest_without_consumer);
        }
    }

    // What the server knows of the consumer, which is made if it is not there and `may_be_made`.
    void take_consumer(std::string_view json, bool may_be_made)
    {
        const auto read = nlohmann::json::parse(json, nullptr, false);
        const auto error = read.is_object() ? read.find("error") : read.end();
        if (read.is_object() && error == read.end()) {
            meet(read);
            return;
        }
        if (may_be_made && read.is_object() && error->is_object() &&
            number_in(*error, "err_code") == no_such_consumer) {
            ask_for_consumer();
            return;
        }
        complain(read.is_object() && error->is_object() ? text_in(*error, "description")
                                                        : "JetStream does not answer");
        look_again(rest_without_consumer);
    }

    void meet(const nlohmann::json& consumer)
    {
        const auto pending = static_cast<std::size_t>(number_in(consumer, "num_ack_pending"));
        const auto config = object_in(consumer, "config");
        const std::chrono::nanoseconds their_time(number_in(config, "ack_wait"));
        if (const auto most = number_in(config, "max_batch"); most > 0)
            batch_max_ = static_cast<std::size_t>(most);
        put_in_order();
        elsewhere_ = in_other_hands(
            pending, number_in(object_in(consumer, "delivered"), "stream_seq"), ours());
        if (!how_.in_order)
            elsewhere_ = 0;
        else if (number_in(consumer, "num_waiting") > 0 &&
                 others_.must_wait_for_requests(steady_clock::now())) {
            complain("somebody else asks for its messages; that is waited for, so that nothing "
                     "overtakes what goes there",
                     log_level::info);
            look_again(rest_for_others);
            return;
        }
        switch (others_.next(steady_clock::now(), elsewhere_, their_time)) {
        case catching_up::step::rest:
            complain(fmt::format("{} messages are in other hands; they are waited for, so that "
                                 "nothing overtakes them, until their time is over",
                                 elsewhere_),
                     log_level::info);
            look_again(rest_for_others);
            break;
        case catching_up::step::gather:
            phase_ = phase::gathering;
            saw_new_ = false;
            look_again({});
            break;
        case catching_up::step::read:
            problem_.clear();
            phase_ = phase::reading;
            look_again({});
            break;
        }
    }

    // The places of what we have and nobody has heard about. What came again after its answer is
    // not pending any more, or will not be when the answer has arrived.
    [[nodiscard]] std::set<std::uint64_t> ours() const
    {
        std::set<std::uint64_t> result;
        for (const auto& [ticket, reply] : tickets_)
            result.insert(sequence_in(reply));
        for (const auto& [reply, message] : waiting_)
            result.insert(sequence_in(reply));
        for (const auto& each : unsure_)
            result.erase(sequence_in(each.reply));
        return result;
    }

    void end_request()
    {
        if (phase_ == phase::gathering) {
            phase_ = phase::meeting;
            if (saw_new_ || left_ > 0)
                others_.gathered();
        }
        look_again({});
    }

    // By place in the stream. What came twice counts once: its answer goes to the later delivery.
    void put_in_order()
    {
        std::map<std::uint64_t, std::pair<std::string, fed_message>> sorted;
        for (auto& each : waiting_) {
            const auto place = sequence_in(each.first);
            sorted.insert_or_assign(place, std::move(each));
        }
        waiting_.clear();
        for (auto& [place, each] : sorted)
            waiting_.push_back(std::move(each));
    }

    void take_stream(std::string_view json)
    {
        const auto read = nlohmann::json::parse(json, nullptr, false);
        if (!read.is_object() || read.contains("error"))
            return; // we may not know
        const auto retention = text_in(object_in(read, "config"), "retention");
        stays_in_stream_ = retention.empty() || retention == "limits";
    }

    // Once for each new problem.
    void complain(const std::string& what, log_level level = log_level::warning)
    {
        if (std::exchange(problem_, what) != what)
            say(level, what);
    }

    void say(log_level level, const std::string& what) const
    {
        if (log_)
            log_(level, fmt::format("{}: {}", name_, what));
    }

    [[nodiscard]] std::string place_in_stream(std::string_view reply) const
    {
        const auto place = place_in(reply);
        return place.empty() ? std::string() : fmt::format("{}:{}", how_.stream, place);
    }

    [[nodiscard]] fed_message message_in(natsMsg& message, std::string_view reply) const
    {
        headers names;
        const char** keys = nullptr;
        int count = 0;
        if (natsMsgHeader_Keys(&message, &keys, &count) == NATS_OK) {
            for (int i = 0; i < count; ++i) {
                const char* value = nullptr;
                if (natsMsgHeader_Get(&message, keys[i], &value) == NATS_OK)
                    names.insert_or_assign(keys[i], value == nullptr ? "" : value);
            }
            std::free(keys); // NOLINT: libnats gave it
        }
        arrival known{.id = place_in_stream(reply), .topic = natsMsg_GetSubject(&message)};
        if (const auto id = core::find_header(names, "Nats-Msg-Id"); !id.empty())
            known.id = std::string(id);
        core::erase_header(names, "Nats-Msg-Id");
        return opened(std::move(names), std::string(payload_of(message)), std::move(known),
                      nats_attributes);
    }

    void on_error(const std::string& text) override
    {
        const std::lock_guard lock(mutex_);
        complain(text);
    }

    nats_feed_options how_;
    std::string name_;
    log_sink log_;
    std::string api_;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::shared_ptr<nats_connection> connection_; // shared with the link
    bool closed_ = false;
    std::uint64_t changes_ = 0;
    std::uint64_t pull_ = 0;     ///< the number of the latest request for messages
    std::size_t left_ = 0;       ///< of what it asked for
    steady_time ask_again_at_{}; ///< until then it is under way
    bool asked_ = false;         ///< for messages, and that has not ended
    std::size_t batch_max_ = std::numeric_limits<std::size_t>::max(); ///< the consumer's

    phase phase_ = phase::meeting;
    catching_up others_;
    bool had_asked_ = false;                   ///< for messages, on this connection
    std::size_t elsewhere_ = 0;                ///< messages that others have, or nobody
    bool saw_new_ = false;                     ///< while gathering: it came to its end
    std::atomic<bool> stays_in_stream_ = true; ///< what is terminated
    std::string problem_;

    std::deque<std::pair<std::string, fed_message>> waiting_; ///< by where to answer
    std::map<std::uint64_t, std::string> tickets_;            ///< handed over
    struct given_answer {
        steady_time at;
        std::string reply;
        std::string what;
    };
    std::deque<given_answer> unsure_; ///< that may not have arrived
    std::uint64_t last_ticket_ = 0;

    std::unique_ptr<nats_link> link_; // last: its thread uses everything above
};

} // namespace
} // namespace transports

void check_nats_feed(const nats_feed_options& how)
{
    const auto refuse = [](std::string why) { throw error(error_code::invalid_argument, why); };
    (void)transports::options_from(transports::nats_settings::parse(how.url, how.access));
    for (const auto& [what, name] : {std::pair{"stream", how.stream}, {"consumer", how.consumer}})
        if (!transports::is_name(name))
            refuse(fmt::format("'{}' cannot name a {} of NATS: one word without dots, blanks and "
                               "wildcards",
                               name, what));
    if (!how.domain.empty() && !transports::is_name(how.domain))
        refuse(fmt::format("'{}' is no JetStream domain: one word without dots", how.domain));
    if (how.connect_within <= duration::zero() || how.ack_wait <= duration::zero() ||
        how.ping_every <= duration::zero())
        refuse("the time limits of a NATS feed must be longer than nothing");
}

std::unique_ptr<feed> open_nats_feed(nats_feed_options how, environment surroundings)
{
    check_nats_feed(how);
    auto settings = transports::nats_settings::parse(how.url, std::move(how.access));
    settings.connect_within = how.connect_within;
    settings.ping_every = how.ping_every;
    settings.client_name = how.client_name;
    how.url.clear(); // it may hold a password
    how.access = {};
    return std::make_unique<transports::nats_feed>(std::move(how), settings, surroundings);
}

} // namespace posthorn
