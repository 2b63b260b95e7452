// How often and under which fences handlers start: I4, I5 and I6.
#include "checker/rules.hpp"

#include <algorithm>

namespace posthorn::checker {
namespace {

std::int64_t number(fence which)
{
    return static_cast<std::int64_t>(which);
}

// Going up the fences, no start may have happened before one with a smaller fence was asked for.
void check_growth(const dossier& all, const message_story& story, verdict& result)
{
    const noted<start_event>* latest = nullptr;
    const noted<start_event>* previous = nullptr;
    for (const auto& start : story.starts) {
        if (previous != nullptr)
            result.expect(previous->what.fence < start.what.fence, story,
                          "was started twice under fence {}", number(start.what.fence));
        if (latest != nullptr)
            result.expect(!surely_before(all, start.at, latest->asked_at), story,
                          "was started under fence {} after fence {}", number(latest->what.fence),
                          number(start.what.fence));
        previous = &start;
        if (latest == nullptr || latest->asked_at < start.asked_at)
            latest = &start;
    }
}

void check_old_fences(const dossier& all, const message_story& story, verdict& result)
{
    std::map<fence, int> effective;
    for (const auto& settled : story.settlements) {
        if (!took_effect(settled.what))
            continue;
        result.expect(++effective[settled.what.fence] == 1, story,
                      "was settled more than once under fence {}", number(settled.what.fence));
        const auto newer = std::ranges::find_if(story.starts, [&](const auto& start) {
            return start.what.fence > settled.what.fence &&
                   surely_before(all, start.at, settled.asked_at);
        });
        result.expect(newer == story.starts.end(), story,
                      "was settled as {} under the old fence {}, after a newer start",
                      to_string(*settled.what.answer), number(settled.what.fence));
    }
}

// A worker killed right after its start committed never told of it: so many may be untold.
std::size_t untold_starts_max(const dossier& all)
{
    return static_cast<std::size_t>(std::ranges::count_if(all.faults, [](const auto& each) {
        return each.what.kind == fault_kind::killed || each.what.kind == fault_kind::server;
    }));
}

// Starts that were taken back, because the handler was in no position to begin. Where the answer
// was not heard the first time, it may have been.
struct taken_back {
    std::size_t surely = 0;
    std::size_t perhaps = 0;
};

taken_back starts_taken_back(const message_story& story)
{
    taken_back result;
    for (const auto& start : story.starts) {
        const auto unharmed = [&](const noted<settle_event>& each) {
            return each.what.fence == start.what.fence &&
                   (each.what.answer == settled_as::released ||
                    each.what.answer == settled_as::parked);
        };
        const auto meant = [&](const noted<settle_event>& each) {
            return each.what.fence == start.what.fence && !took_effect(each.what) &&
                   (each.what.outcome == outcome::kind::postpone ||
                    each.what.outcome == outcome::kind::park);
        };
        if (std::ranges::any_of(story.settlements, unharmed))
            ++result.surely;
        else if (std::ranges::any_of(story.settlements, meant))
            ++result.perhaps;
    }
    return result;
}

void check_counted(const message_story& story, std::size_t untold_max, verdict& result)
{
    const auto* row = story.row();
    if (row == nullptr || !story.redrives.empty())
        return;
    const auto counted = static_cast<std::size_t>(row->attempts);
    const auto back = starts_taken_back(story);
    const auto kept = story.starts.size() - back.surely;
    result.expect(counted + back.perhaps >= kept, story,
                  "counts {} attempts in the tables, but was started {} times", counted, kept);
    result.expect(counted <= kept + untold_max, story,
                  "has lost an attempt without a start: {} are counted, {} starts are known",
                  counted, kept);
}

bool has_reason_to_repeat(const dossier& all, const message_story& story,
                          const noted<start_event>& start)
{
    const auto gave_back = [&](const auto& each) {
        return each.what.fence == start.what.fence &&
               (each.what.answer == settled_as::retrying ||
                each.what.answer == settled_as::released ||
                each.what.answer == settled_as::parked ||
                (each.what.answer == settled_as::dead &&
                 maybe_redriven(all, story, each.asked_at, never)));
    };
    return std::ranges::any_of(story.settlements, gave_back) || was_interrupted(all, story, start);
}

void check_has_start(const message_story& story, const settle_event& settled, verdict& result)
{
    if (settled.answer != settled_as::done && settled.answer != settled_as::retrying)
        return;
    const auto started = std::ranges::any_of(
        story.starts, [&](const auto& each) { return each.what.fence == settled.fence; });
    result.expect(started, story, "was settled as {} under fence {}, but never started under it",
                  to_string(*settled.answer), number(settled.fence));
}

} // namespace

verdict check_fences(const dossier& all)
{
    verdict result("I4");
    for (const auto& [id, story] : all.stories) {
        check_growth(all, story, result);
        check_old_fences(all, story, result);
    }
    return result;
}

verdict check_attempts(const dossier& all)
{
    verdict result("I5");
    const auto allowed = static_cast<std::size_t>(all.bounds.attempts_max);
    const auto untold_max = untold_starts_max(all);
    for (const auto& [id, story] : all.stories) {
        const auto starts_max = allowed * (1 + story.redrives.size());
        const auto back = starts_taken_back(story);
        const auto starts = story.starts.size() - back.surely;
        result.expect(allowed == 0 || starts <= starts_max + back.perhaps, story,
                      "was started {} times, and {} are allowed", starts, starts_max);
        check_counted(story, untold_max, result);
    }
    return result;
}

verdict check_repeats(const dossier& all)
{
    verdict result("I6");
    for (const auto& [id, story] : all.stories) {
        const auto* row = story.row();
        const bool done = row != nullptr && row->state == message_state::done;
        result.expect(!done || !story.starts.empty(), story, "is done, but was never started");
        for (const auto& each : story.settlements)
            check_has_start(story, each.what, result);
        for (std::size_t i = 1; i < story.starts.size(); ++i) {
            const auto& before = story.starts[i - 1];
            result.expect(has_reason_to_repeat(all, story, before), story,
                          "was started again under fence {}, though nothing had happened to the "
                          "start under fence {}",
                          number(story.starts[i].what.fence), number(before.what.fence));
        }
    }
    return result;
}

} // namespace posthorn::checker
