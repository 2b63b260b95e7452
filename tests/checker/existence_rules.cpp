// What exists, what may be missing, and whether an end stays an end: I1, I2 and I3.
#include "checker/arrivals.hpp"
#include "checker/rules.hpp"

#include <algorithm>

namespace posthorn::checker {
namespace {

void check_transactions(const dossier& all, const message_story& story, verdict& result)
{
    std::size_t commits = 0;
    for (const auto& each : story.enqueues) {
        const auto end = all.transactions.find(each.what.transaction);
        result.expect(end != all.transactions.end() || was_killed(all, each.by), story,
                      "cannot be judged: {} was not killed, but its transaction '{}' has no end",
                      each.by, each.what.transaction);
        if (end == all.transactions.end() || end->second.what.end != transaction_end::committed)
            continue;
        ++commits;
        for (const auto& start : story.starts)
            result.expect(!surely_before(all, start.at, end->second.asked_at), story,
                          "was started under fence {} before its transaction '{}' committed",
                          static_cast<std::int64_t>(start.what.fence), each.what.transaction);
    }
    result.expect(commits <= 1, story, "was enqueued by {} transactions that all committed",
                  commits);
}

// A key is held by a message that may start, has started or was put aside, or by a dead one that
// blocks it.
std::set<std::string> held_keys(const dossier& all)
{
    std::set<std::string> result;
    for (const auto& [id, story] : all.stories)
        for (const auto& row : story.rows)
            if (row.state == message_state::ready || row.state == message_state::parked ||
                row.state == message_state::claimed || row.blocks_key)
                result.insert(row.ordering_key);
    return result;
}

// An acknowledged end: when, and as what.
struct end {
    timestamp asked_at;
    timestamp at;
    message_state state;
};

std::vector<end> ends_of(const message_story& story)
{
    std::vector<end> result;
    for (const auto& each : story.settlements)
        if (const auto state = ended_as(each.what))
            result.push_back({each.asked_at, each.at, *state});
    for (const auto& each : story.cancels)
        if (each.what.answer == cancel_answer::cancelled)
            result.push_back({each.asked_at, each.at, message_state::cancelled});
    std::ranges::stable_sort(result, {}, &end::at);
    return result;
}

void check_starts_after(const dossier& all, const message_story& story, const end& which,
                        verdict& result)
{
    if (which.state == message_state::cancelled)
        return; // a promise of its own: I18
    for (const auto& start : story.starts)
        result.expect(!surely_before(all, which.at, start.asked_at) ||
                          maybe_redriven(all, story, which.asked_at, start.at),
                      story, "was started under fence {} after it had ended as {}",
                      static_cast<std::int64_t>(start.what.fence), to_string(which.state));
}

void check_row_after(const dossier& all, const message_story& story, const end& last,
                     verdict& result)
{
    const auto* row = story.row();
    if (row != nullptr && !maybe_redriven(all, story, last.asked_at, never))
        result.expect(row->state == last.state, story, "had ended as {}, but is {} in the tables",
                      to_string(last.state), to_string(row->state));
}

} // namespace

verdict check_existence(const dossier& all)
{
    verdict result("I1");
    for (const auto& [id, story] : all.stories) {
        const auto expected = expected_presence(all, story);
        const bool seen = !story.rows.empty() || !story.starts.empty();
        result.expect(expected != presence::must_not || !seen, story, "{} though {}",
                      story.rows.empty() ? "was started" : "exists",
                      story.enqueues.empty() ? "nobody enqueued it"
                                             : "its transaction was rolled back");
        result.expect(expected != presence::must || seen || may_be_gone(all, story), story,
                      "does not exist though its transaction committed");
        check_transactions(all, story, result);
    }
    check_arrivals(all, result);
    return result;
}

verdict check_loss(const dossier& all)
{
    verdict result("I2");
    const auto held = held_keys(all);
    for (const auto& [id, story] : all.stories) {
        result.expect(!story.rows.empty() || story.starts.empty() || may_be_gone(all, story), story,
                      "was started and has vanished from the tables");
        result.expect(story.rows.size() <= 1, story, "is listed {} times", story.rows.size());
        for (const auto& row : story.rows)
            result.expect(row.state != message_state::waiting || held.contains(row.ordering_key),
                          story, "waits for key '{}', which nothing holds", row.ordering_key);
    }
    return result;
}

verdict check_finality(const dossier& all)
{
    verdict result("I3");
    for (const auto& [id, story] : all.stories) {
        const auto ends = ends_of(story);
        const auto redrives = story.redrives.size();
        result.expect(ends.size() <= 1 + redrives, story, "ended {} times, with {} redrives",
                      ends.size(), redrives);
        for (const auto& each : ends)
            check_starts_after(all, story, each, result);
        if (!ends.empty())
            check_row_after(all, story, ends.back(), result);
        if (const auto* row = story.row())
            result.expect(static_cast<std::size_t>(row->redrives) <= redrives, story,
                          "counts {} redrives in the tables, but only {} were made", row->redrives,
                          redrives);
    }
    return result;
}

} // namespace posthorn::checker
