// Messages out, acknowledgements back to an inbox of ours: the last part of the inbox's name says
// which message an acknowledgement is for.
#include "core/planted.hpp"
#include "transport/envelope.hpp"
#include "transport/nats/acknowledgement.hpp"
#include "transport/nats/link.hpp"
#include "transport/wire/outgoing.hpp"
#include <posthorn/error.hpp>
#include <posthorn/nats.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace posthorn {
namespace transports {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t usual_payload_bytes_max = std::size_t{1} << 20U; // of a server
constexpr std::size_t headers_bytes_reserved = std::size_t{8} << 10U;
constexpr auto end_look = 20ms; // until one that has ended is noticed
constexpr auto replace_what_is_no_text = nlohmann::json::error_handler_t::replace;
constexpr auto fresh_for = 100ms; // who answered so lately need not be asked
constexpr std::string_view declare_answer = "declared";
constexpr auto declare_pause = 1s;     // between two times that the stream is declared
constexpr std::size_t burst_max = 256; // so many are made before anybody else gets the lock

// What the protocol cannot carry unchanged: lines end a header, and blanks around it are lost.
std::string problem_with_header(std::string_view name, std::string_view value)
{
    for (const char each : name)
        if (const auto byte = static_cast<unsigned char>(each);
            byte <= ' ' || byte >= 0x7f || each == ':')
            return fmt::format("NATS cannot carry a header of the name '{}'", name);
    if (name.empty())
        return "NATS cannot carry a header without a name";
    const auto is_blank = [](char each) { return each == ' ' || (each >= '\t' && each <= '\r'); };
    if (!value.empty() && (is_blank(value.front()) || is_blank(value.back())))
        return fmt::format("NATS cannot carry blanks around the header '{}'", name);
    if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos)
        return fmt::format("NATS cannot carry a header of several lines: '{}'", name);
    return {};
}

class nats_transport final : public transport, private nats_listener {
public:
    nats_transport(nats_options how, const nats_settings& settings, const environment& surroundings)
        : how_(std::move(how)),
          name_(settings.shown()),
          log_(surroundings.log),
          api_(how_.domain.empty() ? "$JS.API." : fmt::format("$JS.{}.API.", how_.domain)),
          streams_question_(api_ + "STREAM.NAMES"),
          places_(how_.window)
    {
        for (auto i = places_.size(); i > 0; --i)
            free_.push_back(i - 1);
        asker_ = std::jthread([this](const std::stop_token& stop) { ask_when_wanted(stop); });
        link_ =
            std::make_unique<nats_link>(settings, surroundings, static_cast<nats_listener&>(*this));
    }

    ~nats_transport() override
    {
        close({.until = monotonic_time{}}); // nobody publishes any more
    }

    using transport::close;
    using transport::publish;

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& how_long) override
    {
        if (what.empty())
            return {};
        const allowance allowed(how_long, how_.publish_within);
        flight now{.what = what,
                   .messages = outgoing(what),
                   .words = envelope_writer(nats_attributes, how_.source)};
        std::unique_lock lock(mutex_);
        if (closed_)
            return std::vector(what.size(), publish_answer::no(refusal::closed));
        ++publishing_;
        run(now, allowed, lock);
        for (const auto each : now.places)
            if (places_[each].of == &now)
                leave(each);
        --publishing_;
        changed_.notify_all();
        return std::move(now.messages).answers();
    }

    // The answer to a question that was under way before counts as well: a call may end sooner than
    // any answer can come from far away.
    bool wait_until_ready(const time_limit& how_long) override
    {
        const allowance allowed(how_long, std::chrono::hours{24 * 365});
        std::unique_lock lock(mutex_);
        if (!closed_ && connection_ != nullptr && steady_clock::now() < heard_at_ + fresh_for)
            return true;
        const auto before = answers_;
        while (!closed_ && !allowed.is_over() && answers_ == before) {
            is_asked_ = true;
            changed_.notify_all();
            changed_.wait_until(lock, allowed.stop, allowed.until,
                                [&] { return closed_ || answers_ != before; });
        }
        return !closed_ && answers_ != before;
    }

    void close(const time_limit& how_long) override
    {
        std::unique_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
        const auto is_quiet = [&] { return publishing_ == 0; };
        if (how_long.until)
            changed_.wait_until(lock, how_long.stop, steady_time(*how_long.until), is_quiet);
        else
            changed_.wait(lock, how_long.stop, is_quiet);
        if (!is_quiet() || std::exchange(stopping_, true))
            return;
        connection_.reset();
        lock.unlock();
        // It may be about to connect, which takes its time: it ends when it is there.
        if (how_long.until || how_long.stop.stop_possible())
            link_->ask_to_stop();
        else
            link_->stop();
    }

    transport_capabilities capabilities() const override
    {
        const std::lock_guard lock(mutex_);
        return {.payload_bytes_max = payload_bytes_max(),
                .headers_bytes_max = headers_bytes_reserved,
                .calls_at_once = 3,
                .confirms = true,
                .reports_unroutable = true,
                .keeps_order = true,
                .suppresses_duplicates = true};
    }

    std::string name() const override { return name_; }

private:
    /// One call of `publish`.
    struct flight {
        std::span<const transport_message> what;
        outgoing messages;
        envelope_writer words;
        std::string reply = {};                                    ///< of the message in the making
        std::string headers = {};                                  ///< and these
        std::vector<std::size_t> places = {};                      ///< that it had or has
        std::deque<std::pair<steady_time, std::size_t>> sent = {}; ///< when, and which
        bool began = false;
    };

    /// Of a message that has no answer yet.
    struct place {
        flight* of = nullptr;
        std::size_t which = 0;
        std::uint32_t turn = 0; ///< how often the place was used: late answers find nobody
        bool is_sent = false;
        bool asks_for_streams = false; ///< there was no answer; now we want to know why
    };

    struct burst_item {
        std::size_t at;
        std::uint32_t turn;
        std::size_t which;
        publish_answer answer = publish_answer::yes(); ///< accepted: it was sent
    };

    [[nodiscard]] std::size_t payload_bytes_max() const
    {
        const auto room = server_payload_bytes_max_ > headers_bytes_reserved
                              ? server_payload_bytes_max_ - headers_bytes_reserved
                              : server_payload_bytes_max_;
        return std::min(how_.payload_bytes_max.value_or(room), room);
    }

    [[nodiscard]] std::string subject_of(const transport_message& message) const
    {
        return how_.prefix + (message.destination.empty() ? message.topic : message.destination);
    }

    // Whoever asks libnats whether the server is there has to stay until it answers, so this has a
    // thread of its own. A user who may publish nowhere else may still send a PING.
    void ask_when_wanted(const std::stop_token& stop)
    {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return is_asked_ && connection_ != nullptr; })) {
            const auto connection = connection_;
            lock.unlock();
            const bool answers = connection->answers_within(how_.ack_within);
            lock.lock();
            if (answers && connection == connection_) {
                is_asked_ = false;
                ++answers_;
                changed_.notify_all();
            } else {
                changed_.wait_for(lock, stop, end_look, [&] { return connection_ != connection; });
            }
        }
    }

    void run(flight& now, const allowance& allowed, std::unique_lock<std::mutex>& lock)
    {
        while (!now.messages.is_over()) {
            if (allowed.is_over()) {
                now.messages.give_up(
                    connection_ == nullptr
                        ? publish_answer::no(refusal::unavailable, problem_)
                        : publish_answer::no(refusal::busy, "there was no time left"),
                    publish_answer::no_answer("no answer in time"));
                return;
            }
            if (connection_ == nullptr && (now.began || closed_)) {
                const auto why = closed_ ? refusal::closed : refusal::unavailable;
                now.messages.give_up(publish_answer::no(why, problem_),
                                     publish_answer::no_answer(problem_));
                return;
            }
            if (connection_ == nullptr) {
                changed_.wait_until(lock, allowed.stop, allowed.until,
                                    [&] { return closed_ || connection_ != nullptr; });
                continue;
            }
            if (steady_clock::now() < declaring_until_) {
                const auto until = std::min(allowed.until, declaring_until_); // which may change
                changed_.wait_until(lock, allowed.stop, until, [&] {
                    return closed_ || connection_ == nullptr || declaring_until_ == steady_time{};
                });
                continue;
            }
            give_up_late_ones(now);
            if (now.messages.has_ready() && !free_.empty()) {
                send_burst(now, lock);
                continue;
            }
            if (now.messages.is_over())
                return;
            const auto until =
                now.sent.empty()
                    ? allowed.until
                    : std::min(allowed.until, now.sent.front().first + how_.ack_within);
            changed_.wait_until(lock, allowed.stop, until, [&] {
                return now.messages.is_over() || connection_ == nullptr ||
                       (now.messages.has_ready() && !free_.empty());
            });
        }
    }

    // Those that have waited for an answer for too long.
    void give_up_late_ones(flight& now)
    {
        const auto late = steady_clock::now() - how_.ack_within;
        while (!now.sent.empty()) {
            const auto [when, which] = now.sent.front();
            if (!now.messages.is_settled(which)) {
                if (when > late)
                    return;
                now.messages.settle(which, publish_answer::no_answer(fmt::format(
                                               "subject '{}': no acknowledgement in time",
                                               subject_of(now.what[which]))));
            }
            now.sent.pop_front();
        }
    }

    void send_burst(flight& now, std::unique_lock<std::mutex>& lock)
    {
        const auto connection = connection_;
        const auto bytes_max = payload_bytes_max();
        std::vector<burst_item> burst;
        while (now.messages.has_ready() && !free_.empty() && burst.size() < burst_max) {
            const auto at = free_.back();
            free_.pop_back();
            const auto which = now.messages.take();
            auto& taken = places_[at];
            taken = {.of = &now, .which = which, .turn = taken.turn + 1};
            now.places.push_back(at);
            burst.push_back({.at = at, .turn = taken.turn, .which = which});
        }
        now.began = true;
        lock.unlock();
        link_->hold();
        for (auto& each : burst)
            each.answer = send(now, each, *connection, bytes_max);
        link_->let_go();
        lock.lock();
        const auto sent_at = steady_clock::now();
        for (auto& each : burst) {
            auto& mine = places_[each.at];
            if (mine.of != &now || mine.which != each.which)
                continue; // answered meanwhile; its turn tells less, which may ask for streams
            if (!each.answer.accepted())
                settle(each.at, std::move(each.answer));
            else if (connection_ != connection)
                settle(each.at, publish_answer::no_answer(problem_));
            else {
                mine.is_sent = true;
                now.sent.emplace_back(sent_at, each.which);
            }
        }
    }

    // Accepted: it is in libnats' hands.
    [[nodiscard]] publish_answer send(flight& now, const burst_item& item,
                                      nats_connection& connection, std::size_t bytes_max) const
    {
        const auto& message = now.what[item.which];
        if (message.payload.size() > bytes_max)
            return publish_answer::no(refusal::too_large,
                                      fmt::format("the payload is {} bytes long; at most {} are "
                                                  "sent to NATS",
                                                  message.payload.size(), bytes_max));
        const auto subject = subject_of(message);
        if (!is_subject(subject))
            return publish_answer::no(refusal::malformed,
                                      fmt::format("'{}' is no NATS subject: parts between dots, "
                                                  "without blanks and wildcards",
                                                  subject));
        natsMsg* made = nullptr;
        now.reply.clear();
        fmt::format_to(std::back_inserter(now.reply), "{}{}-{}", connection.inbox(), item.at,
                       item.turn);
        auto status =
            natsMsg_Create(&made, subject.c_str(), now.reply.c_str(), message.payload.data(),
                           static_cast<int>(message.payload.size()));
        const nats_message held(made);
        // To libnats all but the last value are one name, which it writes as it is: a table of nine
        // headers for each message takes it longer than all the rest of publishing.
        now.headers.clear();
        for (const auto& [name, value] : now.words.parts_of(message)) {
            if (auto problem = problem_with_header(*name, *value); !problem.empty())
                return publish_answer::no(refusal::malformed, std::move(problem));
            now.headers.append(*name).append(": ").append(*value).append("\r\n");
        }
        now.headers += "Nats-Msg-Id";
        const auto id = core::names_by_content
                            ? std::to_string(std::hash<std::string>{}(message.payload))
                            : now.words.id();
        if (status == NATS_OK)
            status = natsMsgHeader_Set(made, now.headers.c_str(), id.c_str());
        if (status == NATS_OK)
            status = connection.publish(*made);
        if (status == NATS_OK)
            return publish_answer::yes();
        const auto why = status == NATS_MAX_PAYLOAD ? refusal::too_large : refusal::unavailable;
        return publish_answer::no(why, natsStatus_GetText(status));
    }

    // The place is free again, and whoever waits for the message hears of it.
    void settle(std::size_t at, publish_answer answer)
    {
        auto& of = *places_[at].of;
        if (const auto which = places_[at].which; !of.messages.is_settled(which))
            of.messages.settle(which, std::move(answer));
        leave(at);
        if (of.messages.is_over() || of.messages.has_ready())
            changed_.notify_all();
    }

    void leave(std::size_t at)
    {
        auto& mine = places_[at];
        if (mine.of == nullptr)
            return;
        mine.of = nullptr;
        ++mine.turn;
        free_.push_back(at);
    }

    void on_up(std::shared_ptr<nats_connection> connection) override
    {
        const std::lock_guard lock(mutex_);
        if (stopping_)
            return;
        server_payload_bytes_max_ = connection->payload_bytes_max();
        connection_ = std::move(connection);
        declare();
        changed_.notify_all();
    }

    // Nothing is sent before the answer, or a message would meet a subject without a stream.
    void declare()
    {
        declaring_until_ = {};
        const auto now = steady_clock::now();
        if (!how_.declare || (declared_at_ != steady_time{} && now < declared_at_ + declare_pause))
            return;
        declared_at_ = now;
        const nlohmann::json wanted{{"name", how_.declare->stream},
                                    {"subjects", how_.declare->subjects},
                                    {"num_replicas", how_.declare->replicas},
                                    {"storage", "file"}};
        const auto answer_to = fmt::format("{}{}", connection_->inbox(), declare_answer);
        if (connection_->publish(api_ + "STREAM.CREATE." + how_.declare->stream, answer_to,
                                 wanted.dump(-1, ' ', false, replace_what_is_no_text)))
            declaring_until_ = now + how_.ack_within;
    }

    void take_declared(natsMsg& answer)
    {
        declaring_until_ = {};
        const bool unanswered = status_of(answer) == "503";
        auto problem = unanswered ? std::string("JetStream does not answer")
                                  : problem_with_declaring(payload_of(answer));
        if (log_ && !problem.empty() && problem != not_declared_)
            log_(log_level::warning, fmt::format("{}: the stream '{}' is not declared: {}", name_,
                                                 how_.declare->stream, problem));
        not_declared_ = std::move(problem);
        changed_.notify_all();
    }

    // The answer to a message that no stream takes.
    publish_answer unroutable(publish_answer answer)
    {
        if (!how_.declare || answer.why != refusal::unroutable)
            return answer;
        if (!not_declared_.empty())
            answer.detail += fmt::format("; the stream '{}' is not declared: {}",
                                         how_.declare->stream, not_declared_);
        declare();
        return answer;
    }

    void on_down(const std::string& why) override
    {
        const std::lock_guard lock(mutex_);
        problem_ = why;
        connection_.reset();
        for (std::size_t at = 0; at < places_.size(); ++at)
            if (places_[at].of != nullptr && places_[at].is_sent)
                settle(at, publish_answer::no_answer(why));
        changed_.notify_all();
    }

    void on_message(natsMsg& message) override
    {
        const std::lock_guard lock(mutex_);
        if (connection_ != nullptr)
            take(message);
    }

    void take(natsMsg& answer)
    {
        const std::string_view subject = natsMsg_GetSubject(&answer);
        const auto numbers = subject.substr(std::min(subject.size(), connection_->inbox().size()));
        if (numbers == declare_answer)
            return take_declared(answer);
        std::size_t at = 0;
        std::uint32_t turn = 0;
        const auto* end = numbers.data() + numbers.size();
        const auto dash = std::from_chars(numbers.data(), end, at).ptr;
        if (dash == end || std::from_chars(dash + 1, end, turn).ptr != end ||
            at >= places_.size() || places_[at].of == nullptr || places_[at].turn != turn)
            return;
        heard_at_ = steady_clock::now();
        auto& mine = places_[at];
        const auto& message = mine.of->what[mine.which];
        const bool unanswered = status_of(answer) == "503";
        if (mine.asks_for_streams)
            settle(at, unroutable(nats_answer_about_streams(unanswered ? "" : payload_of(answer),
                                                            subject_of(message))));
        else if (is_usual_nats_answer(payload_of(answer)))
            settle(at, publish_answer::yes());
        else if (!unanswered)
            settle(at, nats_answer(payload_of(answer), subject_of(message)));
        else
            ask_for_streams(mine, at);
    }

    // Nobody answers for the subject: because no stream takes it, or because its stream is without
    // a leader at the moment. Only the first is for good.
    void ask_for_streams(place& mine, std::size_t at)
    {
        mine.asks_for_streams = true;
        ++mine.turn;
        const nlohmann::json question{{"subject", subject_of(mine.of->what[mine.which])}};
        (void)connection_->publish(streams_question_,
                                   fmt::format("{}{}-{}", connection_->inbox(), at, mine.turn),
                                   question.dump(-1, ' ', false, replace_what_is_no_text));
    }

    void on_error(const std::string& text) override
    {
        if (log_)
            log_(log_level::warning, fmt::format("{}: {}", name_, text));
        const auto subject = denied_subject(text);
        if (subject.empty())
            return;
        const std::lock_guard lock(mutex_);
        if (how_.declare && subject == api_ + "STREAM.CREATE." + how_.declare->stream) {
            declaring_until_ = {};
            not_declared_ = text;
        }
        for (std::size_t at = 0; at < places_.size(); ++at) {
            const auto& mine = places_[at];
            if (mine.of == nullptr)
                continue;
            if (mine.asks_for_streams && subject == streams_question_)
                settle(at, nats_answer_about_streams("", subject_of(mine.of->what[mine.which])));
            else if (subject_of(mine.of->what[mine.which]) == subject)
                settle(at, publish_answer::no(refusal::denied, text));
        }
        changed_.notify_all();
    }

    nats_options how_;
    std::string name_;
    log_sink log_;
    std::string api_;
    std::string streams_question_;

    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    std::shared_ptr<nats_connection> connection_; // shared with whoever sends a burst
    std::size_t server_payload_bytes_max_ = usual_payload_bytes_max;
    std::string problem_ = "not connected yet";
    std::vector<place> places_;
    std::vector<std::size_t> free_;
    int publishing_ = 0;
    bool is_asked_ = false;     // somebody wants to know whether the server is there
    steady_time heard_at_{};    ///< a server answered a message
    std::uint64_t answers_ = 0; // of the server, to that
    steady_time declared_at_{};
    steady_time declaring_until_{}; ///< nothing is sent before
    std::string not_declared_;      ///< why the stream is not; empty: it is
    bool closed_ = false;
    bool stopping_ = false;

    std::jthread asker_;              // ends after the link: an end of the connection answers it
    std::unique_ptr<nats_link> link_; // last: its thread uses everything above
};

} // namespace
} // namespace transports

void check_nats(const nats_options& how)
{
    const auto refuse = [](std::string why) { throw error(error_code::invalid_argument, why); };
    (void)transports::options_from(transports::nats_settings::parse(how.url, how.access));
    if (how.window == 0 || how.window > 1'000'000)
        refuse("the window of a NATS transport must be 1 … 1,000,000 messages");
    if (how.payload_bytes_max && *how.payload_bytes_max == 0)
        refuse("payload_bytes_max of a NATS transport must be at least 1");
    if (how.connect_within <= duration::zero() || how.ack_within <= duration::zero() ||
        how.publish_within <= duration::zero() || how.ping_every <= duration::zero())
        refuse("the time limits of a NATS transport must be longer than nothing");
    if (!how.prefix.empty() && !transports::is_subject(how.prefix + "x"))
        refuse(
            fmt::format("'{}' cannot begin a NATS subject; write for example shop.", how.prefix));
    if (!how.domain.empty() && !transports::is_name(how.domain))
        refuse(fmt::format("'{}' is no JetStream domain: one word without dots", how.domain));
    if (!how.declare)
        return;
    if (!transports::is_name(how.declare->stream))
        refuse(fmt::format("'{}' cannot be the name of a NATS stream: one word without dots",
                           how.declare->stream));
    if (how.declare->subjects.empty())
        refuse("a NATS stream that is declared needs a subject at least, such as orders.>");
    if (how.declare->replicas < 1 || how.declare->replicas > 5)
        refuse("a NATS stream has 1 to 5 replicas");
}

std::shared_ptr<transport> open_nats(nats_options how, environment surroundings)
{
    check_nats(how);
    auto settings = transports::nats_settings::parse(how.url, std::move(how.access));
    settings.connect_within = how.connect_within;
    settings.ping_every = how.ping_every;
    settings.client_name = how.client_name;
    how.url.clear(); // it may hold a password
    how.access = {};
    return std::make_shared<transports::nats_transport>(std::move(how), settings, surroundings);
}

} // namespace posthorn
