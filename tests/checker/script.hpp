// A run that never took place, written down event by event: what the rules are tested with.
#pragma once

#include "checker/report.hpp"

#include <set>
#include <string>
#include <vector>

namespace posthorn::checker {

/// Message number n; tests count instead of making up UUIDs.
[[nodiscard]] inline message_id id(int number)
{
    uuid value;
    value.bytes[14] = static_cast<std::uint8_t>(number >> 8);
    value.bytes[15] = static_cast<std::uint8_t>(number);
    return message_id{value};
}

/// Each call tells one event; it takes a tenth of a second, and the next comes a second later.
class script {
public:
    history told;
    final_state found;
    checker::bounds bounds;

    void tell(happening what, const std::string& by = "worker")
    {
        event whole;
        whole.asked_at = now_;
        whole.at = now_ + std::chrono::milliseconds{100};
        whole.by = by;
        whole.sequence = told.events.size();
        whole.what = std::move(what);
        told.events.push_back(whole);
        pass(std::chrono::seconds{1});
    }

    void pass(duration length) { now_ += length; }
    [[nodiscard]] timestamp now() const { return now_; }

    void enqueued(int number, const std::string& key = "")
    {
        enqueued({.id = id(number), .topic = "orders", .key = key, .transaction = token(number)});
    }
    void enqueued(const enqueue_event& what) { tell(what, "producer"); }

    void ended(int number, transaction_end end)
    {
        tell(transaction_event{.transaction = token(number), .end = end}, "producer");
    }

    /// Enqueued in a transaction that committed.
    void committed(int number, const std::string& key = "")
    {
        enqueued(number, key);
        ended(number, transaction_end::committed);
    }

    /// The name that message number n has where it comes from.
    [[nodiscard]] static inbound outside(int number)
    {
        return {.source = "shop", .id = std::to_string(number)};
    }

    void sent(int number, const std::string& key = "")
    {
        tell(send_event{.from = outside(number), .key = key}, "sender");
    }

    /// Brought by a feed, in a transaction that has not ended.
    void fed(int number, const std::string& transaction, const std::string& key = "",
             const std::string& by = "feed")
    {
        tell(
            feed_event{
                .from = outside(number), .topic = "orders", .key = key, .transaction = transaction},
            by);
    }

    void ended(const std::string& transaction, transaction_end end)
    {
        tell(transaction_event{.transaction = transaction, .end = end}, "feed");
    }

    /// Brought in a transaction of its own, which committed.
    void stored(int number, const std::string& key = "")
    {
        const auto transaction = "batch " + std::to_string(told.events.size());
        fed(number, transaction, key);
        ended(transaction, transaction_end::committed);
    }

    void started(int number, int fence, const std::string& by = "worker")
    {
        tell(start_event{.id = id(number), .fence = posthorn::fence{fence}}, by);
    }

    void settled(int number, int fence, std::optional<settled_as> answer)
    {
        tell(settle_event{
            .id = id(number), .fence = posthorn::fence{fence}, .outcome = {}, .answer = answer});
    }

    /// Started and done.
    void handled(int number, int fence)
    {
        started(number, fence);
        settled(number, fence, settled_as::done);
    }

    void cancelled(int number)
    {
        tell(cancel_event{.id = id(number), .answer = cancel_answer::cancelled}, "producer");
    }

    void redriven(int number) { tell(redrive_event{id(number)}, "operator"); }
    void killed(const std::string& name) { hit({.kind = fault_kind::killed, .worker = name}); }
    void hit(const fault_event& what) { tell(what, "injector"); }

    /// A row of the final tables; it counts the starts that were told, and ended now.
    message_record& row(int number, message_state state)
    {
        message_record result;
        result.id = id(number);
        result.position = static_cast<std::int64_t>(found.messages.size()) + 1;
        result.state = state;
        result.topic = "orders";
        if (is_terminal(state))
            result.finished_at = now_;
        for (const auto& each : told.events) {
            if (const auto* what = std::get_if<start_event>(&each.what))
                result.attempts += what->id == result.id ? 1 : 0;
            if (const auto* what = std::get_if<enqueue_event>(&each.what);
                what && what->id == result.id)
                result.ordering_key = what->key;
        }
        return found.messages.emplace_back(std::move(result));
    }

    /// The row of a message that came from outside under the name of that number.
    message_record& row_of(int named, int number, message_state state, const std::string& key = "")
    {
        auto& result = row(number, state);
        result.topic = inbox_topic("orders");
        result.ordering_key = key;
        result.headers = {{std::string(inbox_source_header), outside(named).source},
                          {std::string(inbox_id_header), outside(named).id}};
        return result;
    }

    /// The application's tables hold an effect of each of these, and of nothing else.
    void effects(const std::vector<int>& of)
    {
        found.effects.emplace();
        for (const int each : of)
            found.effects->push_back(outside(each));
    }

    [[nodiscard]] judgement judged()
    {
        found.read_at = now_;
        return judge(told, found, bounds);
    }

    /// The promises that the run broke.
    [[nodiscard]] std::set<std::string> broken()
    {
        std::set<std::string> result;
        for (const auto& each : judged().violations())
            result.insert(each.promise);
        return result;
    }

    [[nodiscard]] std::vector<std::string> sentences()
    {
        std::vector<std::string> result;
        for (const auto& each : judged().violations())
            result.push_back(each.sentence);
        return result;
    }

private:
    static std::string token(int number) { return "transaction " + std::to_string(number); }

    timestamp now_{std::chrono::seconds{1'800'000'000}};
};

} // namespace posthorn::checker
