// Events are sorted into the stories of their messages once, so that each rule reads one story at a
// time.
#include "checker/dossier.hpp"

#include "checker/arrivals.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::checker {
namespace {

class compiler {
public:
    explicit compiler(dossier& into) : into_(into) {}

    void add(const event& which)
    {
        std::visit([&](const auto& what) { add(which, what); }, which.what);
    }

    void add(const message_record& row)
    {
        story_of(row.id).rows.push_back(row);
        if (const auto from = origin_of(row))
            arrival_of(*from).messages.push_back(row.id);
    }

    void add_effect(const inbound& of) { ++arrival_of(of).effects; }

private:
    template <typename What>
    static noted<What> note(const event& which, const What& what)
    {
        return {static_cast<const moment&>(which), what};
    }

    message_story& story_of(message_id id)
    {
        auto& story = into_.stories[id];
        story.id = id;
        return story;
    }

    arrival_story& arrival_of(const inbound& from)
    {
        auto& story = into_.arrivals[{from.source, from.id}];
        story.from = from;
        return story;
    }

    void add(const event& which, const feed_event& what)
    {
        arrival_of(what.from).deliveries.push_back(note(which, what));
    }
    void add(const event& which, const send_event& what)
    {
        arrival_of(what.from).sendings.push_back(note(which, what));
    }
    void add(const event& which, const enqueue_event& what)
    {
        story_of(what.id).enqueues.push_back(note(which, what));
    }
    void add(const event& which, const start_event& what)
    {
        story_of(what.id).starts.push_back(note(which, what));
    }
    void add(const event& which, const settle_event& what)
    {
        story_of(what.id).settlements.push_back(note(which, what));
    }
    void add(const event& which, const cancel_event& what)
    {
        story_of(what.id).cancels.push_back(note(which, what));
    }
    void add(const event& which, const redrive_event& what)
    {
        story_of(what.id).redrives.push_back(note(which, what));
    }
    void add(const event& which, const purge_event& what)
    {
        story_of(what.id).purges.push_back(note(which, what));
    }

    // An unknown end may be looked up later, and then it is known; other ends come once.
    void add(const event& which, const transaction_event& what)
    {
        const auto [known, added] =
            into_.transactions.try_emplace(what.transaction, note(which, what));
        known->second.asked_at = std::min(known->second.asked_at, which.asked_at);
        if (added || what.end == transaction_end::unknown)
            return;
        if (known->second.what.end != transaction_end::unknown)
            throw error(error_code::invalid_argument,
                        fmt::format("transaction '{}' has two ends", what.transaction));
        known->second.at = which.at;
        known->second.what.end = what.end;
    }

    void add(const event& which, const fault_event& what)
    {
        into_.faults.push_back(note(which, what));
        into_.bounds.clock_tolerance += std::chrono::abs(what.shift);
    }

    void add(const event& which, const stop_event&)
    {
        into_.stopped_at = std::max(into_.stopped_at.value_or(which.at), which.at);
    }

    dossier& into_;
};

void sort(message_story& story)
{
    std::ranges::stable_sort(story.starts, {}, [](const auto& each) { return each.what.fence; });
    std::ranges::stable_sort(story.settlements, {}, [](const auto& each) { return each.at; });
}

std::optional<transaction_end> end_of(const dossier& all, const std::string& transaction)
{
    const auto found = all.transactions.find(transaction);
    return found == all.transactions.end() ? std::nullopt : std::optional{found->second.what.end};
}

// When the start was over, as far as its worker lived to tell.
std::optional<timestamp> told_end(const message_story& story, fence which)
{
    const auto found = std::ranges::find(story.settlements, which,
                                         [](const auto& each) { return each.what.fence; });
    return found == story.settlements.end() ? std::nullopt : std::optional{found->at};
}

bool touches(const dossier& all, const noted<fault_event>& fault, const message_story& story,
             const noted<start_event>& start)
{
    const auto kind = fault.what.kind;
    if (kind == fault_kind::clock)
        return false;
    if (fault.what.id)
        return fault.what.id == story.id && fault.what.fence == start.what.fence;
    if (kind != fault_kind::server && fault.what.worker != start.by)
        return false;
    const auto end = told_end(story, start.what.fence);
    return !surely_before(all, fault.at, start.asked_at) &&
           !(end && surely_before(all, *end, fault.asked_at));
}

} // namespace

const message_record* message_story::row() const
{
    return rows.size() == 1 ? &rows.front() : nullptr;
}

dossier compile(const history& told, const final_state& found, const bounds& allowed)
{
    dossier result;
    result.bounds = allowed;
    result.read_at = found.read_at;
    compiler work(result);
    for (const auto& each : told.events)
        work.add(each);
    for (const auto& each : found.messages)
        work.add(each);
    result.knows_effects = found.effects.has_value();
    for (const auto& each : found.effects.value_or(std::vector<inbound>{}))
        work.add_effect(each);
    tell_who_stored(result);
    for (auto& [id, story] : result.stories)
        sort(story);
    return result;
}

bool surely_before(const dossier& all, timestamp earlier, timestamp later)
{
    return later - earlier > all.bounds.clock_tolerance;
}

presence expected_presence(const dossier& all, const message_story& story)
{
    if (committed_enqueue(all, story) != nullptr)
        return presence::must;
    const auto in_doubt = [&](const auto& each) {
        return end_of(all, each.what.transaction).value_or(transaction_end::unknown) ==
               transaction_end::unknown;
    };
    return std::ranges::any_of(story.enqueues, in_doubt) ? presence::may : presence::must_not;
}

const noted<enqueue_event>* committed_enqueue(const dossier& all, const message_story& story)
{
    const auto found = std::ranges::find_if(story.enqueues, [&](const auto& each) {
        return end_of(all, each.what.transaction) == transaction_end::committed;
    });
    return found == story.enqueues.end() ? nullptr : &*found;
}

const noted<enqueue_event>* likely_enqueue(const dossier& all, const message_story& story)
{
    const auto* committed = committed_enqueue(all, story);
    return committed != nullptr || story.enqueues.empty() ? committed : &story.enqueues.back();
}

bool was_killed(const dossier& all, const std::string& name)
{
    return std::ranges::any_of(all.faults, [&](const auto& each) {
        return each.what.kind == fault_kind::killed && each.what.worker == name;
    });
}

bool may_be_gone(const dossier& all, const message_story& story)
{
    if (!story.purges.empty())
        return true;
    if (!all.bounds.done_forgotten)
        return false;
    const auto done = [](const auto& each) { return each.what.answer == settled_as::done; };
    return std::ranges::any_of(story.settlements, done) ||
           (!story.starts.empty() && was_interrupted(all, story, story.starts.back()));
}

bool took_effect(const settle_event& what)
{
    return what.answer && *what.answer != settled_as::lost;
}

std::optional<message_state> ended_as(const settle_event& what)
{
    if (what.answer == settled_as::done)
        return message_state::done;
    return what.answer == settled_as::dead ? std::optional{message_state::dead} : std::nullopt;
}

bool was_interrupted(const dossier& all, const message_story& story,
                     const noted<start_event>& start)
{
    const auto unanswered = [&](const auto& each) {
        return each.what.fence == start.what.fence && !each.what.answer;
    };
    return std::ranges::any_of(story.settlements, unanswered) ||
           std::ranges::any_of(
               all.faults, [&](const auto& fault) { return touches(all, fault, story, start); });
}

bool maybe_redriven(const dossier& all, const message_story& story, timestamp after,
                    timestamp before)
{
    return std::ranges::any_of(story.redrives, [&](const auto& each) {
        return !surely_before(all, each.at, after) && !surely_before(all, before, each.asked_at);
    });
}

} // namespace posthorn::checker
