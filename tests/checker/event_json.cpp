// One writer and one reader per kind of event; the word in "event" chooses the reader.
#include "checker/event_json.hpp"

#include "checker/json_fields.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace posthorn::checker {
namespace {

using nlohmann::json;

template <typename Value>
using word = std::pair<Value, std::string_view>;

constexpr std::array transaction_words{
    word<transaction_end>{transaction_end::committed, "committed"},
    word<transaction_end>{transaction_end::rolled_back, "rolled_back"},
    word<transaction_end>{transaction_end::unknown, "commit_unknown"},
};

constexpr std::array fault_words{
    word<fault_kind>{fault_kind::killed, "killed"},
    word<fault_kind>{fault_kind::paused, "paused"},
    word<fault_kind>{fault_kind::lease_expired, "lease_expired"},
    word<fault_kind>{fault_kind::timed_out, "timed_out"},
    word<fault_kind>{fault_kind::server, "server"},
    word<fault_kind>{fault_kind::clock, "clock"},
};

constexpr std::array outcome_words{
    word<outcome::kind>{outcome::kind::done, "done"},
    word<outcome::kind>{outcome::kind::retry, "retry"},
    word<outcome::kind>{outcome::kind::fail, "fail"},
    word<outcome::kind>{outcome::kind::postpone, "postpone"},
    word<outcome::kind>{outcome::kind::park, "park"},
};

// Answers have their words in the library.
constexpr std::array settle_answers{settled_as::lost, settled_as::done,     settled_as::retrying,
                                    settled_as::dead, settled_as::released, settled_as::parked};
constexpr std::array cancel_answers{cancel_answer::cancelled, cancel_answer::too_late,
                                    cancel_answer::pending, cancel_answer::not_found};
constexpr std::string_view no_answer = "unknown";

template <typename Value, std::size_t Size>
std::string_view word_of(const std::array<word<Value>, Size>& words, Value value)
{
    return std::ranges::find(words, value, &word<Value>::first)->second;
}

[[noreturn]] void refuse_word(std::string_view name, std::string_view text)
{
    throw error(error_code::invalid_argument, fmt::format("'{}' is not a known {}", text, name));
}

template <typename Value, std::size_t Size>
Value parse_word(const std::array<word<Value>, Size>& words, std::string_view name,
                 std::string_view text)
{
    const auto found = std::ranges::find(words, text, &word<Value>::second);
    if (found == words.end())
        refuse_word(name, text);
    return found->first;
}

template <typename Answer, std::size_t Size>
std::optional<Answer> parse_answer(const std::array<Answer, Size>& answers, std::string_view text)
{
    if (text == no_answer)
        return std::nullopt;
    const auto found =
        std::ranges::find_if(answers, [&](auto each) { return to_string(each) == text; });
    if (found == answers.end())
        refuse_word("answer", text);
    return *found;
}

template <typename Answer>
std::string_view answer_word(const std::optional<Answer>& answer)
{
    return answer ? to_string(*answer) : no_answer;
}

struct line_writer {
    json& into;

    void operator()(const enqueue_event& what) const
    {
        into["event"] = "enqueued";
        into["id"] = to_string(what.id);
        into["topic"] = what.topic;
        into["transaction"] = what.transaction;
        put(into, "key", what.key);
        put(into, "due_at", what.due_at);
        put(into, "expires_at", what.expires_at);
    }

    void operator()(const feed_event& what) const
    {
        into["event"] = "fed";
        name(what.from);
        into["topic"] = what.topic;
        into["transaction"] = what.transaction;
        put(into, "key", what.key);
    }

    void operator()(const send_event& what) const
    {
        into["event"] = "sent";
        name(what.from);
        put(into, "key", what.key);
    }

    void operator()(const transaction_event& what) const
    {
        into["event"] = word_of(transaction_words, what.end);
        into["transaction"] = what.transaction;
    }

    void operator()(const start_event& what) const
    {
        name("started", what.id);
        into["fence"] = what.fence;
        into["attempt"] = what.attempt;
    }

    void operator()(const settle_event& what) const
    {
        name("settled", what.id);
        into["fence"] = what.fence;
        into["outcome"] = word_of(outcome_words, what.outcome);
        into["answer"] = answer_word(what.answer);
    }

    void operator()(const cancel_event& what) const
    {
        name("cancel", what.id);
        into["answer"] = answer_word(what.answer);
    }

    void operator()(const redrive_event& what) const { name("redriven", what.id); }
    void operator()(const purge_event& what) const { name("purged", what.id); }
    void operator()(const stop_event&) const { into["event"] = "stop"; }

    void operator()(const fault_event& what) const
    {
        into["event"] = word_of(fault_words, what.kind);
        put(into, "worker", what.worker);
        if (what.id) {
            into["id"] = to_string(*what.id);
            into["fence"] = what.fence;
        }
        if (what.kind == fault_kind::clock)
            into["shift_us"] = what.shift.count();
    }

    void name(const char* kind, message_id id) const
    {
        into["event"] = kind;
        into["id"] = to_string(id);
    }

    void name(const inbound& from) const
    {
        into["source"] = from.source;
        into["source_id"] = from.id;
    }
};

happening read_enqueue(json_fields& from)
{
    return enqueue_event{.id = from.id("id"),
                         .topic = from.text("topic"),
                         .key = from.text_or_empty("key"),
                         .due_at = from.optional_time("due_at"),
                         .expires_at = from.optional_time("expires_at"),
                         .transaction = from.text("transaction")};
}

inbound read_name(json_fields& from)
{
    return {.source = from.text("source"), .id = from.text("source_id")};
}

happening read_feed(json_fields& from)
{
    return feed_event{.from = read_name(from),
                      .topic = from.text("topic"),
                      .key = from.text_or_empty("key"),
                      .transaction = from.text("transaction")};
}

happening read_send(json_fields& from)
{
    return send_event{.from = read_name(from), .key = from.text_or_empty("key")};
}

happening read_transaction(json_fields& from)
{
    return transaction_event{.transaction = from.text("transaction"),
                             .end = parse_word(transaction_words, "event", from.text("event"))};
}

happening read_start(json_fields& from)
{
    return start_event{.id = from.id("id"),
                       .fence = fence{from.integer("fence")},
                       .attempt = static_cast<int>(from.integer("attempt"))};
}

happening read_settle(json_fields& from)
{
    return settle_event{.id = from.id("id"),
                        .fence = fence{from.integer("fence")},
                        .outcome = parse_word(outcome_words, "outcome", from.text("outcome")),
                        .answer = parse_answer(settle_answers, from.text("answer"))};
}

happening read_cancel(json_fields& from)
{
    return cancel_event{.id = from.id("id"),
                        .answer = parse_answer(cancel_answers, from.text("answer"))};
}

happening read_redrive(json_fields& from)
{
    return redrive_event{from.id("id")};
}

happening read_purge(json_fields& from)
{
    return purge_event{from.id("id")};
}

happening read_stop(json_fields&)
{
    return stop_event{};
}

happening read_fault(json_fields& from)
{
    fault_event what{.kind = parse_word(fault_words, "event", from.text("event"))};
    switch (what.kind) {
    case fault_kind::killed:
    case fault_kind::paused: what.worker = from.text("worker"); break;
    case fault_kind::lease_expired:
    case fault_kind::timed_out:
        what.id = from.id("id");
        what.fence = fence{from.integer("fence")};
        break;
    case fault_kind::clock: what.shift = duration{from.integer("shift_us")}; break;
    case fault_kind::server: break;
    }
    return what;
}

using line_reader = happening (*)(json_fields&);

const std::map<std::string_view, line_reader>& readers()
{
    static const auto all = [] {
        std::map<std::string_view, line_reader> result{
            {"enqueued", &read_enqueue}, {"fed", &read_feed},       {"sent", &read_send},
            {"started", &read_start},    {"settled", &read_settle}, {"cancel", &read_cancel},
            {"redriven", &read_redrive}, {"purged", &read_purge},   {"stop", &read_stop},
        };
        for (const auto& [value, text] : transaction_words)
            result.emplace(text, &read_transaction);
        for (const auto& [value, text] : fault_words)
            result.emplace(text, &read_fault);
        return result;
    }();
    return all;
}

} // namespace

std::string to_line(const event& what)
{
    json line{{"at", to_json_time(what.at)}, {"by", what.by}};
    if (what.asked_at != what.at)
        line["asked_at"] = to_json_time(what.asked_at);
    std::visit(line_writer{line}, what.what);
    return line.dump();
}

event parse_event(std::string_view line)
{
    auto from = json_fields::parse(line);
    const auto kind = from.text("event");
    const auto reader = readers().find(kind);
    if (reader == readers().end())
        refuse_word("event", kind);
    event result;
    result.at = from.time("at");
    result.asked_at = from.optional_time("asked_at").value_or(result.at);
    result.by = from.text("by");
    result.what = reader->second(from);
    from.finish();
    if (result.asked_at > result.at)
        throw error(error_code::invalid_argument, "'asked_at' is later than 'at'");
    return result;
}

} // namespace posthorn::checker
