// A message from outside is delivered as often as somebody likes, and one delivery stores it. A
// feed that was killed does not say whether that was its own, so everything from its asking to the
// end of the first delivery that surely committed counts as the time of storing.
#include "checker/arrivals.hpp"

#include <algorithm>
#include <set>
#include <span>

namespace posthorn::checker {
namespace {

using delivery_note = noted<feed_event>;

const noted<transaction_event>* find_end(const dossier& all, const delivery_note& which)
{
    const auto found = all.transactions.find(which.what.transaction);
    return found == all.transactions.end() ? nullptr : &found->second;
}

bool ended(const dossier& all, const delivery_note& which, transaction_end as)
{
    const auto* end = find_end(all, which);
    return end != nullptr && end->what.end == as;
}

// The deliveries that may have stored a message, and the first one that surely found or left it
// there.
struct candidates {
    std::vector<const delivery_note*> all;
    const delivery_note* sure = nullptr;
    timestamp sure_at = never;
};

candidates candidates_among(const dossier& all, std::span<const delivery_note> deliveries)
{
    candidates result;
    for (const auto& each : deliveries) {
        if (ended(all, each, transaction_end::rolled_back))
            continue;
        result.all.push_back(&each);
        if (!ended(all, each, transaction_end::committed))
            continue;
        const auto at = find_end(all, each)->at;
        if (at < result.sure_at) {
            result.sure = &each;
            result.sure_at = at;
        }
    }
    return result;
}

noted<enqueue_event> as_enqueue(const delivery_note& which, message_id id, std::string transaction)
{
    return {static_cast<const moment&>(which),
            {.id = id,
             .topic = inbox_topic(which.what.topic),
             .key = which.what.key,
             .transaction = std::move(transaction)}};
}

// In a transaction that stands for all that may have been the one.
noted<enqueue_event> in_doubt(dossier& all, const candidates& who, message_id id)
{
    const auto asked_at = [](const auto* each) { return each->asked_at; };
    const auto& first = **std::ranges::min_element(who.all, {}, asked_at);
    const auto& last = **std::ranges::max_element(who.all, {}, asked_at);
    auto token = "that stored " + to_string(id);
    noted<transaction_event> end{
        static_cast<const moment&>(first),
        {token, who.sure != nullptr ? transaction_end::committed : transaction_end::unknown}};
    end.at = who.sure != nullptr ? who.sure_at : last.at;
    all.transactions.emplace(token, std::move(end));
    return as_enqueue(first, id, std::move(token));
}

void tell_who_stored(dossier& all, message_id id, std::span<const delivery_note> deliveries)
{
    if (deliveries.empty())
        return;
    auto& enqueues = all.stories.at(id).enqueues;
    const auto who = candidates_among(all, deliveries);
    if (who.all.empty()) { // all rolled back
        enqueues.push_back(as_enqueue(deliveries.back(), id, deliveries.back().what.transaction));
        return;
    }
    const auto came_later = [&](const auto* each) {
        return each == who.sure || surely_before(all, who.sure_at, each->asked_at);
    };
    const bool is_certain = who.sure != nullptr && std::ranges::all_of(who.all, came_later);
    enqueues.push_back(is_certain ? as_enqueue(*who.sure, id, who.sure->what.transaction)
                                  : in_doubt(all, who, id));
}

bool is_done(const dossier& all, message_id id)
{
    const auto* row = all.stories.at(id).row();
    return row != nullptr && row->state == message_state::done;
}

} // namespace

void tell_who_stored(dossier& all)
{
    for (auto& [name, arrival] : all.arrivals) {
        std::ranges::stable_sort(arrival.deliveries, {}, &delivery_note::asked_at);
        const std::span<const delivery_note> deliveries = arrival.deliveries;
        // Another message of the same name needs another delivery.
        for (std::size_t i = 0; i < arrival.messages.size(); ++i)
            tell_who_stored(all, arrival.messages[i],
                            deliveries.subspan(std::min(i, deliveries.size())));
    }
}

void check_arrivals(const dossier& all, verdict& result)
{
    std::set<std::string> known_senders;
    for (const auto& [name, arrival] : all.arrivals)
        if (!arrival.sendings.empty())
            known_senders.insert(name.first);
    for (const auto& [name, arrival] : all.arrivals) {
        bool committed = false;
        for (const auto& each : arrival.deliveries) {
            committed = committed || ended(all, each, transaction_end::committed);
            result.expect(find_end(all, each) != nullptr || was_killed(all, each.by), arrival,
                          "cannot be judged: {} was not killed, but its transaction '{}' has no "
                          "end",
                          each.by, each.what.transaction);
        }
        if (committed && all.bounds.done_forgotten && arrival.messages.empty())
            result.leave_open(); // who came from where was forgotten with it
        else
            result.expect(!committed || !arrival.messages.empty(), arrival,
                          "does not exist though its transaction committed");
        result.expect(!known_senders.contains(name.first) || !arrival.sendings.empty(), arrival,
                      "has arrived, though nobody sent it");
    }
}

void check_arriving(const dossier& all, verdict& result)
{
    for (const auto& [name, arrival] : all.arrivals) {
        if (arrival.sendings.empty() || !arrival.messages.empty())
            continue; // once stored, it is like any other message
        const auto deadline =
            std::max(*all.stopped_at, arrival.sendings.back().at) + all.bounds.settle_within;
        if (surely_before(all, deadline, all.read_at) && !all.bounds.done_forgotten)
            result.expect(false, arrival, "was sent, and has not arrived in time");
        else
            result.leave_open();
    }
}

verdict check_effects(const dossier& all)
{
    verdict result("I7");
    for (const auto& [name, arrival] : all.arrivals) {
        const auto done = std::ranges::count_if(arrival.messages,
                                                [&](message_id id) { return is_done(all, id); });
        result.expect(done <= 1, arrival, "was handled {} times, in as many messages", done);
        if (!all.knows_effects)
            continue;
        result.expect(arrival.effects <= 1, arrival, "has taken effect {} times", arrival.effects);
        result.expect(done == 0 || arrival.effects > 0, arrival, "is done, and has no effect");
        result.expect(done > 0 || arrival.effects == 0, arrival,
                      "has taken effect, though it is not done");
    }
    return result;
}

} // namespace posthorn::checker
