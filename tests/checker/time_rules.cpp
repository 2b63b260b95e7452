// When messages may start, and when they must have ended: I8, I17, I18 and I20.
#include "checker/arrivals.hpp"
#include "checker/rules.hpp"

#include <algorithm>
#include <tuple>

namespace posthorn::checker {
namespace {

double seconds(duration length)
{
    return std::chrono::duration<double>(length).count();
}

// A committed message of an ordering key.
struct member {
    const message_story* story;
    const noted<enqueue_event>* enqueue;
    timestamp committed_at;
    timestamp ends_from; // it had not ended before this
};

using members = std::vector<member>;

// The earliest time at which the message can have ended. Whoever redrives a message gives up its
// place in the order; a missing row is reported by other rules.
timestamp earliest_end(const message_story& story)
{
    const auto* row = story.row();
    if (row == nullptr || !story.redrives.empty())
        return long_ago;
    auto result = is_terminal(row->state) ? row->finished_at.value_or(long_ago) : never;
    for (const auto& each : story.settlements)
        if (!each.what.answer || ended_as(each.what))
            result = std::min(result, each.asked_at);
    for (const auto& each : story.cancels)
        if (!each.what.answer || each.what.answer == cancel_answer::cancelled)
            result = std::min(result, each.asked_at);
    return result;
}

std::map<std::string, members> members_by_key(const dossier& all)
{
    std::map<std::string, members> result;
    for (const auto& [id, story] : all.stories) {
        const auto* enqueue = committed_enqueue(all, story);
        if (enqueue != nullptr && !enqueue->what.key.empty())
            result[enqueue->what.key].push_back(
                {.story = &story,
                 .enqueue = enqueue,
                 .committed_at = all.transactions.at(enqueue->what.transaction).at,
                 .ends_from = earliest_end(story)});
    }
    return result;
}

const member* later_end(const member* a, const member& b)
{
    return a == nullptr || a->ends_from < b.ends_from ? &b : a;
}

void check_waits_for(const dossier& all, const member& waiting, const member* earlier,
                     verdict& result)
{
    if (earlier == nullptr)
        return;
    for (const auto& start : waiting.story->starts)
        result.expect(!surely_before(all, start.at, earlier->ends_from), *waiting.story,
                      "was started under fence {} before the earlier message {} of key '{}' had "
                      "ended",
                      static_cast<std::int64_t>(start.what.fence), to_string(earlier->story->id),
                      waiting.enqueue->what.key);
}

// Everyone waits for all that had committed before: it is enough to look at the one ending last.
void check_across_transactions(const dossier& all, const members& of_key, verdict& result)
{
    auto by_commit = of_key;
    auto by_enqueue = of_key;
    std::ranges::sort(by_commit, {}, &member::committed_at);
    std::ranges::sort(by_enqueue, {}, [](const auto& each) { return each.enqueue->asked_at; });
    const member* last = nullptr;
    auto next = by_commit.begin();
    for (const auto& each : by_enqueue) {
        for (; next != by_commit.end() &&
               surely_before(all, next->committed_at, each.enqueue->asked_at);
             ++next)
            last = later_end(last, *next);
        check_waits_for(all, each, last, result);
    }
}

void check_within_transactions(const dossier& all, members of_key, verdict& result)
{
    std::ranges::sort(of_key, {}, [](const auto& each) { return each.enqueue->sequence; });
    std::map<std::string, const member*> last;
    for (const auto& each : of_key) {
        auto*& before = last[each.enqueue->what.transaction];
        check_waits_for(all, each, before, result);
        before = later_end(before, each);
    }
}

// What one writer sent with one key, in the order of sending.
struct sent_member {
    member arrived;
    std::size_t sequence;
};

using way = std::tuple<std::string, std::string, std::string>; // writer, source and key

std::map<way, std::vector<sent_member>> members_by_way(const dossier& all)
{
    std::map<way, std::vector<sent_member>> result;
    for (const auto& [name, arrival] : all.arrivals)
        for (const auto& sent : arrival.sendings) {
            if (sent.what.key.empty() || arrival.messages.empty())
                continue;
            const auto& story = all.stories.at(arrival.messages.front());
            const auto* enqueue = likely_enqueue(all, story);
            if (enqueue != nullptr)
                result[{sent.by, name.first, sent.what.key}].push_back(
                    {.arrived = {.story = &story,
                                 .enqueue = enqueue,
                                 .committed_at = {},
                                 .ends_from = earliest_end(story)},
                     .sequence = sent.sequence});
        }
    for (auto& [of, members] : result)
        std::ranges::sort(members, {}, &sent_member::sequence);
    return result;
}

// The order of sending is that of handling, whoever carried them and however often.
void check_as_sent(const dossier& all, const std::vector<sent_member>& of_key, verdict& result)
{
    const member* last = nullptr;
    for (const auto& each : of_key) {
        check_waits_for(all, each.arrived, last, result);
        last = later_end(last, each.arrived);
    }
}

bool over_before(const dossier& all, const message_story& story, const noted<start_event>& start,
                 timestamp when)
{
    const auto ended = [&](const auto& each) {
        return each.what.fence == start.what.fence && took_effect(each.what) &&
               !surely_before(all, when, each.asked_at);
    };
    return std::ranges::any_of(story.settlements, ended) || was_interrupted(all, story, start);
}

void check_cancel(const dossier& all, const message_story& story, const noted<cancel_event>& cancel,
                  verdict& result)
{
    std::vector<std::int64_t> later;
    for (const auto& start : story.starts) {
        const auto number = static_cast<std::int64_t>(start.what.fence);
        if (surely_before(all, cancel.at, start.asked_at))
            later.push_back(number);
        else
            result.expect(over_before(all, story, start, cancel.at), story,
                          "was cancelled while its start under fence {} was not over", number);
    }
    result.expect(later.empty(), story, "was started under fence {} after it had been cancelled",
                  fmt::join(later, ", "));
}

// Who may still wait when everything else has ended.
class waiting_room {
public:
    explicit waiting_room(const dossier& all) : all_(all)
    {
        for (const auto& [id, story] : all.stories)
            for (const auto& row : story.rows)
                note(row);
    }

    [[nodiscard]] bool admits(const message_record& row) const
    {
        return waits_by_itself(row) ||
               (row.state == message_state::waiting && held_.contains(row.ordering_key));
    }

    /// The latest time at which some message of the key becomes due: the others wait for it.
    [[nodiscard]] timestamp key_due(const std::string& key) const
    {
        const auto found = due_.find(key);
        return found == due_.end() ? long_ago : found->second;
    }

    void plan(const enqueue_event& what)
    {
        if (!what.key.empty() && what.due_at)
            due_[what.key] = std::max(key_due(what.key), *what.due_at);
    }

private:
    [[nodiscard]] bool waits_by_itself(const message_record& row) const
    {
        const bool persists = all_.bounds.attempts_max == 0 && row.attempts > 0 &&
                              row.state == message_state::ready && row.due_at > all_.read_at;
        return persists || all_.bounds.may_wait.contains(row.topic);
    }

    void note(const message_record& row)
    {
        if (row.blocks_key || (!is_terminal(row.state) && waits_by_itself(row)))
            held_.insert(row.ordering_key);
    }

    const dossier& all_;
    std::set<std::string> held_;
    std::map<std::string, timestamp> due_;
};

// From when on the message has no excuse but the bound.
timestamp ready_from(const dossier& all, const message_story& story,
                     const noted<enqueue_event>& enqueue, const waiting_room& waiting)
{
    const auto end = all.transactions.find(enqueue.what.transaction);
    auto result =
        std::max({*all.stopped_at, end == all.transactions.end() ? enqueue.at : end->second.at,
                  enqueue.what.due_at.value_or(long_ago), waiting.key_due(enqueue.what.key)});
    for (const auto& each : story.redrives)
        result = std::max(result, each.at);
    return result;
}

void check_settled(const dossier& all, const message_story& story, timestamp from,
                   const waiting_room& waiting, verdict& result)
{
    const auto& row = *story.row();
    const auto deadline = from + all.bounds.settle_within;
    if (is_terminal(row.state)) {
        const auto ended = row.finished_at.value_or(from);
        result.expect(!surely_before(all, deadline, ended), story,
                      "ended as {} only {:.3f} s after it had to", to_string(row.state),
                      seconds(ended - deadline));
    } else if (!waiting.admits(row)) {
        const bool overdue = surely_before(all, deadline, all.read_at);
        if (overdue)
            result.expect(false, story, "is still {} {:.3f} s after it had to end",
                          to_string(row.state), seconds(all.read_at - deadline));
        else
            result.leave_open();
    }
}

} // namespace

verdict check_order(const dossier& all)
{
    verdict result("I8");
    for (const auto& [way, of_key] : members_by_way(all))
        check_as_sent(all, of_key, result);
    for (const auto& [key, of_key] : members_by_key(all)) {
        check_across_transactions(all, of_key, result);
        check_within_transactions(all, of_key, result);
    }
    return result;
}

verdict check_times(const dossier& all)
{
    verdict result("I17");
    for (const auto& [id, story] : all.stories) {
        const auto* enqueue = likely_enqueue(all, story);
        if (enqueue == nullptr)
            continue;
        const auto due = enqueue->what.due_at.value_or(long_ago);
        const auto expiry = enqueue->what.expires_at.value_or(never);
        for (const auto& start : story.starts) {
            result.expect(!surely_before(all, start.at, due), story,
                          "was started {:.3f} s before it was due", seconds(due - start.at));
            // A redrive lifts the expiry: whoever asks for one wants the message to run.
            result.expect(!surely_before(all, expiry, start.asked_at) ||
                              maybe_redriven(all, story, long_ago, start.at),
                          story, "was started {:.3f} s after it had expired",
                          seconds(start.asked_at - expiry));
        }
    }
    return result;
}

verdict check_cancels(const dossier& all)
{
    verdict result("I18");
    for (const auto& [id, story] : all.stories)
        for (const auto& cancel : story.cancels)
            if (cancel.what.answer == cancel_answer::cancelled)
                check_cancel(all, story, cancel, result);
    return result;
}

verdict check_settling(const dossier& all)
{
    verdict result("I20");
    if (!all.stopped_at)
        return result;
    waiting_room waiting(all);
    for (const auto& [id, story] : all.stories)
        if (const auto* enqueue = likely_enqueue(all, story))
            waiting.plan(enqueue->what);
    for (const auto& [id, story] : all.stories) {
        const auto* enqueue = likely_enqueue(all, story);
        if (enqueue != nullptr && story.row() != nullptr)
            check_settled(all, story, ready_from(all, story, *enqueue, waiting), waiting, result);
    }
    check_arriving(all, result);
    return result;
}

std::vector<verdict> check_all(const dossier& all)
{
    return {check_existence(all), check_loss(all),    check_finality(all), check_fences(all),
            check_attempts(all),  check_repeats(all), check_effects(all),  check_order(all),
            check_times(all),     check_cancels(all), check_settling(all)};
}

} // namespace posthorn::checker
