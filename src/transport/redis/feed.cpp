// A consumer group's share of a stream. Redis keeps what a consumer has in hand under the
// consumer's name, so an interruption changes nothing: what we hold stays ours, and what got lost
// on the way is found again there.
#include "transport/envelope.hpp"
#include "transport/redis/answers.hpp"
#include "transport/redis/link.hpp"
#include <posthorn/error.hpp>
#include <posthorn/redis.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace posthorn {
namespace transports {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto block_max = 1s;          // so long a read may outlive the call that began it
constexpr auto rest_without_group = 1s; // until the next look for a group that is not there
constexpr auto claim_look_min = 100ms;  // between looks for what others have left

std::string machine_name()
{
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "posthorn";
}

class redis_feed final : public feed {
public:
    redis_feed(redis_feed_options how, const redis_address& where, const environment& surroundings)
        : how_(std::move(how)),
          log_(surroundings.log),
          name_(where.shown() + " stream " + how_.stream + " group " + how_.group),
          reading_(where, surroundings, "the Redis server " + where.shown()),
          answering_(where, surroundings, "the Redis server " + where.shown())
    {}

    std::vector<fed_message> receive(std::size_t at_most, const time_limit& how_long) override
    {
        const allowance allowed(how_long, std::chrono::hours{24 * 365});
        const std::stop_callback wake(how_long.stop, [this] { reading_.wake().ring(); });
        while (!closed_ && at_most > 0) {
            if (!waiting_.empty())
                return handed_over(at_most);
            if (allowed.is_over())
                break;
            if (!reading_.is_open()) {
                begin_again();
                if (!reading_.open(allowed, [this] { return closed_.load(); }))
                    continue;
            }
            if (question_ == question::none && !ask(at_most, allowed))
                continue;
            if (const auto reply = reading_.next(allowed.until))
                take(*reply);
        }
        return {};
    }

    void acknowledge(std::span<const std::uint64_t> tickets) override
    {
        for (const auto each : tickets)
            if (auto id = taken_back(each); !id.empty())
                owed_.push_back(std::move(id));
        pay();
    }

    void give_back(std::span<const std::uint64_t> tickets, duration pause) override
    {
        const auto due = steady_clock::now() + pause;
        for (const auto each : tickets)
            if (auto id = taken_back(each); !id.empty())
                resting_.emplace(due, std::move(id));
    }

    void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) override
    {
        for (const auto each : tickets)
            if (auto id = taken_back(each); !id.empty() && !is_kept_elsewhere(id, reason))
                resting_.emplace(steady_clock::now() + 1s, std::move(id));
            else if (!id.empty())
                owed_.push_back(std::move(id));
        pay();
    }

    void close() override
    {
        closed_ = true;
        reading_.wake().ring();
        answering_.wake().ring();
    }

    std::string name() const override { return name_; }

private:
    enum class question { none, group, history, rested, abandoned, fresh };

    // The connection is lost, and with it perhaps a reply with entries.
    void begin_again()
    {
        if (std::exchange(question_, question::none) == question::rested)
            rest_again(steady_clock::now());
        history_from_ = "0-0";
        group_is_known_ = false;
    }

    // Those that were asked for and did not come: the history leaves them out, since we hold them.
    void rest_again(steady_time until)
    {
        for (auto& each : asked_for_)
            resting_.emplace(until, std::move(each));
        asked_for_.clear();
    }

    // Sends the next question that makes sense. False: there is none now, and time has passed.
    bool ask(std::size_t at_most, const allowance& allowed)
    {
        const auto now = steady_clock::now();
        if (now < no_group_until_) {
            (void)reading_.next(std::min(allowed.until, no_group_until_));
            return false;
        }
        if (!owed_.empty())
            pay({.until = std::chrono::time_point_cast<duration>(
                     std::min(allowed.until, now + how_.reply_within)),
                 .stop = allowed.stop});
        const auto count = std::to_string(at_most);
        redis_commands what;
        if (!group_is_known_ && how_.create_group) {
            question_ = question::group;
            what.command({"XGROUP", "CREATE", how_.stream, how_.group, how_.start, "MKSTREAM"});
        } else if (!resting_.empty() && resting_.begin()->first <= now) {
            ask_for_rested(what, now, at_most);
        } else if (!history_from_.empty()) {
            question_ = question::history;
            what.command({"XREADGROUP", "GROUP", how_.group, how_.consumer, "COUNT", count,
                          "STREAMS", how_.stream, history_from_});
        } else if (now >= look_for_abandoned_at_) {
            question_ = question::abandoned;
            what.command({"XAUTOCLAIM", how_.stream, how_.group, how_.consumer,
                          std::to_string(milliseconds(how_.claim_after)), abandoned_from_, "COUNT",
                          count});
        } else {
            auto until = std::min(allowed.until, now + block_max);
            until = std::min(until, look_for_abandoned_at_);
            if (!resting_.empty())
                until = std::min(until, resting_.begin()->first);
            question_ = question::fresh;
            what.command({"XREADGROUP", "GROUP", how_.group, how_.consumer, "COUNT", count, "BLOCK",
                          std::to_string(std::max(milliseconds(until - now), 1L)), "STREAMS",
                          how_.stream, ">"});
        }
        reading_.send(what);
        return true;
    }

    template <typename Length>
    static long milliseconds(Length length)
    {
        return std::chrono::ceil<std::chrono::milliseconds>(length).count();
    }

    void ask_for_rested(redis_commands& what, steady_time now, std::size_t at_most)
    {
        question_ = question::rested;
        asked_for_.clear();
        while (!resting_.empty() && resting_.begin()->first <= now && asked_for_.size() < at_most) {
            asked_for_.push_back(resting_.begin()->second);
            resting_.erase(resting_.begin());
        }
        what.begin(5 + asked_for_.size());
        what.add("XCLAIM");
        what.add(how_.stream);
        what.add(how_.group);
        what.add(how_.consumer);
        what.add("0");
        for (const auto& each : asked_for_)
            what.add(each);
    }

    void take(const redisReply& reply)
    {
        const auto asked = std::exchange(question_, question::none);
        if (is_error(reply)) {
            take_error(asked, text_of(reply));
            return;
        }
        switch (asked) {
        case question::none: break;
        case question::group:
            group_is_known_ = true;
            forget_what_is_held();
            break;
        case question::history:
            if (const auto last = take_stream(reply); last.empty())
                history_from_.clear();
            else
                history_from_ = last;
            break;
        case question::rested:
            for (const auto& each : asked_for_)
                held_.erase(each); // those that do not come were deleted
            take_entries(reply);
            break;
        case question::abandoned: take_abandoned(reply); break;
        case question::fresh: (void)take_stream(reply); break;
        }
    }

    // In a group that was just made nobody has anything in hand, and its entries may have the ids
    // that others had before.
    void forget_what_is_held()
    {
        held_.clear();
        tickets_.clear();
        resting_.clear();
        owed_.clear();
    }

    void take_error(question asked, std::string_view text)
    {
        if (asked == question::rested)
            rest_again(steady_clock::now() + 1s);
        if (asked == question::group && text.starts_with("BUSYGROUP")) {
            group_is_known_ = true;
            return;
        }
        no_group_until_ = steady_clock::now() + rest_without_group;
        group_is_known_ = false;
        if (std::exchange(problem_, std::string(text)) != text && log_)
            log_(log_level::warning, fmt::format("{}: {}", name_, text));
        if (!text.starts_with("NOGROUP"))
            reading_.drop(std::string(text)); // such as READONLY: another server may be right
    }

    // [[stream, [entry, …]]], or nothing. Returns: the last entry's id; empty: there was none.
    std::string take_stream(const redisReply& reply)
    {
        problem_.clear();
        if (reply.type != REDIS_REPLY_ARRAY || reply.elements == 0 ||
            reply.element[0]->elements != 2)
            return {};
        return take_entries(*reply.element[0]->element[1]);
    }

    // [next place to look from, [entry, …], [deleted id, …]]
    void take_abandoned(const redisReply& reply)
    {
        if (reply.type != REDIS_REPLY_ARRAY || reply.elements < 2)
            return;
        abandoned_from_ = std::string(text_of(*reply.element[0]));
        (void)take_entries(*reply.element[1]);
        if (abandoned_from_ == "0-0")
            look_for_abandoned_at_ =
                steady_clock::now() + std::max<duration>(how_.claim_after / 2, claim_look_min);
    }

    // An entry is [id, [name, value, …]].
    std::string take_entries(const redisReply& entries)
    {
        std::string last;
        for (std::size_t i = 0; i < entries.elements; ++i) {
            const auto& entry = *entries.element[i];
            if (entry.type != REDIS_REPLY_ARRAY || entry.elements != 2)
                continue;
            last = std::string(text_of(*entry.element[0]));
            if (entry.element[1]->type != REDIS_REPLY_ARRAY) {
                if (!held_.contains(last))
                    owed_.push_back(last); // deleted from the stream: nobody can ever have it
                continue;
            }
            if (held_.insert(last).second)
                waiting_.emplace_back(last, message_in(last, *entry.element[1]));
        }
        return last;
    }

    [[nodiscard]] fed_message message_in(const std::string& id, const redisReply& fields) const
    {
        headers names;
        std::string payload;
        auto payload_at = fields.elements;
        for (std::size_t i = 0; i + 1 < fields.elements; i += 2)
            if (text_of(*fields.element[i]) == how_.payload_field)
                payload_at = i; // the last one: a header may have this name
        for (std::size_t i = 0; i + 1 < fields.elements; i += 2) {
            if (i == payload_at)
                payload = std::string(text_of(*fields.element[i + 1]));
            else
                names.insert_or_assign(std::string(text_of(*fields.element[i])),
                                       std::string(text_of(*fields.element[i + 1])));
        }
        return opened(std::move(names), std::move(payload), {.id = id, .topic = how_.stream},
                      no_attributes);
    }

    std::vector<fed_message> handed_over(std::size_t at_most)
    {
        std::vector<fed_message> result;
        while (!waiting_.empty() && result.size() < at_most) {
            auto& [id, message] = waiting_.front();
            message.ticket = ++last_ticket_;
            tickets_.emplace(message.ticket, std::move(id));
            result.push_back(std::move(message));
            waiting_.pop_front();
        }
        return result;
    }

    // The entry's id; empty: nobody has this ticket any more.
    std::string taken_back(std::uint64_t ticket)
    {
        const auto found = tickets_.find(ticket);
        if (found == tickets_.end())
            return {};
        auto id = std::move(found->second);
        tickets_.erase(found);
        return id;
    }

    // Acknowledges all that we owe. What fails is owed until it works: repeating it does no harm.
    void pay(const time_limit& how_long = {})
    {
        if (owed_.empty())
            return;
        redis_commands what;
        what.begin(3 + owed_.size());
        what.add("XACK");
        what.add(how_.stream);
        what.add(how_.group);
        for (const auto& each : owed_)
            what.add(each);
        const auto replies = answers_to(what, how_long);
        if (replies.empty() || is_error(*replies.back()))
            return;
        answer_problem_.clear();
        for (const auto& each : owed_)
            held_.erase(each);
        owed_.clear();
    }

    // Whether the other stream has it. Only then may it be acknowledged; if that fails it comes
    // again, and is there twice.
    bool is_kept_elsewhere(const std::string& id, const std::string& reason)
    {
        redis_commands what;
        const auto found = answers_to(what.command({"XRANGE", how_.stream, id, id}));
        if (found.empty() || found.back()->type != REDIS_REPLY_ARRAY)
            return false;
        const redisReply* fields = nullptr;
        if (const auto& all = *found.back(); all.elements == 1 && all.element[0]->elements == 2)
            fields = all.element[0]->element[1];
        what.clear();
        what.begin(7 + (fields == nullptr ? 0 : fields->elements));
        what.add("XADD");
        what.add(how_.refused_stream);
        what.add("*");
        what.add("posthorn-refused-id");
        what.add(id);
        what.add("posthorn-refused-because");
        what.add(reason);
        for (std::size_t i = 0; fields != nullptr && i < fields->elements; ++i)
            what.add(text_of(*fields->element[i]));
        const auto replies = answers_to(what);
        return !replies.empty() && !is_error(*replies.back());
    }

    // Empty: no connection, or it was lost on the way.
    std::vector<redis_reply> answers_to(const redis_commands& what, const time_limit& limit = {})
    {
        const allowance allowed(limit, how_.reply_within);
        const std::stop_callback wake(limit.stop, [this] { answering_.wake().ring(); });
        const auto is_over = [&] { return closed_ || allowed.is_over(); };
        while (answering_.is_open() && answering_.owed() > 0 && !is_over())
            (void)answering_.next(allowed.until);
        if (!answering_.open(allowed, [this] { return closed_.load(); }))
            return {};
        answering_.send(what);
        std::vector<redis_reply> result;
        while (result.size() < what.count() && answering_.is_open() && !is_over())
            if (auto reply = answering_.next(allowed.until))
                result.push_back(std::move(reply));
        if (result.size() < what.count())
            result.clear();
        for (const auto& each : result)
            if (is_error(*each))
                take_error_of_answer(text_of(*each));
        return result;
    }

    // A server that has become a replica says no for ever: a connection made anew may lead
    // elsewhere.
    void take_error_of_answer(std::string_view text)
    {
        if (std::exchange(answer_problem_, std::string(text)) != text && log_)
            log_(log_level::warning, fmt::format("{}: {}", name_, text));
        if (speaks_of_server(text))
            answering_.drop(std::string(text));
    }

    redis_feed_options how_;
    log_sink log_;
    std::string name_;
    redis_link reading_;   // may be blocked in a read
    redis_link answering_; // so that answers do not wait for it
    std::atomic<bool> closed_ = false;

    question question_ = question::none; ///< that the reading connection has to answer
    std::string history_from_ = "0-0";   ///< what we had in hand before; empty: all of it is known
    bool group_is_known_ = false;
    steady_time no_group_until_{};
    std::string abandoned_from_ = "0-0";
    steady_time look_for_abandoned_at_{};
    std::string problem_;
    std::string answer_problem_; ///< the latest that was told

    std::set<std::string> held_; ///< by id: all that must not be handed over once more
    std::deque<std::pair<std::string, fed_message>> waiting_; ///< for the next `receive`
    std::unordered_map<std::uint64_t, std::string> tickets_;  ///< handed over
    std::multimap<steady_time, std::string> resting_;         ///< given back
    std::vector<std::string> asked_for_;                      ///< of those, on their way
    std::vector<std::string> owed_;                           ///< not yet acknowledged
    std::uint64_t last_ticket_ = 0;
};

} // namespace
} // namespace transports

void check_redis_feed(const redis_feed_options& how)
{
    const auto refuse = [](std::string why) { throw error(error_code::invalid_argument, why); };
    (void)transports::redis_address::parse(how.url);
    if (how.stream.empty() || how.group.empty())
        refuse("a Redis feed needs the names of a stream and of a consumer group");
    if (how.refused_stream == how.stream)
        refuse("what a Redis feed refuses must go to another stream than it comes from");
    if (how.claim_after <= duration::zero() || how.connect_within <= duration::zero() ||
        how.reply_within <= transports::block_max)
        refuse("the time limits of a Redis feed must be longer than nothing, and reply_within "
               "longer than a second");
}

std::unique_ptr<feed> open_redis_feed(redis_feed_options how, environment surroundings)
{
    check_redis_feed(how);
    auto where = transports::redis_address::parse(how.url);
    if (how.consumer.empty())
        how.consumer = transports::machine_name();
    if (how.refused_stream.empty())
        how.refused_stream = how.stream + ".refused";
    where.client_name = how.client_name;
    where.connect_within = how.connect_within;
    where.reply_within = how.reply_within;
    how.url.clear(); // it may hold a password
    return std::make_unique<transports::redis_feed>(std::move(how), where, surroundings);
}

} // namespace posthorn
