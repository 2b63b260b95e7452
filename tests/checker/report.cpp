// The number of checks stands beside each promise, because a rule that had nothing to look at has
// not shown anything.
#include "checker/report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace posthorn::checker {
namespace {

tally count(const dossier& all, std::size_t torn_lines)
{
    tally result{
        .messages = all.stories.size(), .faults = all.faults.size(), .torn_lines = torn_lines};
    const auto unanswered = [](const auto& each) { return !each.what.answer; };
    for (const auto& [id, story] : all.stories) {
        result.starts += story.starts.size();
        result.faults +=
            static_cast<std::size_t>(std::ranges::count_if(story.settlements, unanswered) +
                                     std::ranges::count_if(story.cancels, unanswered));
    }
    result.arrivals = all.arrivals.size();
    for (const auto& [name, arrival] : all.arrivals)
        result.effects += arrival.effects;
    for (const auto& [token, end] : all.transactions)
        result.faults += end.what.end == transaction_end::unknown ? 1 : 0;
    return result;
}

std::string spoken_count(std::size_t count, std::string_view thing)
{
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

} // namespace

std::size_t judgement::checks() const
{
    return std::accumulate(verdicts.begin(), verdicts.end(), std::size_t{0},
                           [](std::size_t sum, const auto& each) { return sum + each.checks(); });
}

std::vector<violation> judgement::violations() const
{
    std::vector<violation> result;
    for (const auto& each : verdicts)
        result.insert(result.end(), each.violations().begin(), each.violations().end());
    return result;
}

judgement judge(const history& told, const final_state& found, const bounds& allowed)
{
    const auto all = compile(told, found, allowed);
    return {.looked_at = count(all, told.torn_lines), .verdicts = check_all(all)};
}

std::string to_text(const judgement& what)
{
    std::string text;
    const auto violations = what.violations();
    for (const auto& each : violations)
        text += each.sentence + "\n";
    text += "checks:";
    for (const auto& each : what.verdicts) {
        text += fmt::format(" {} {}", each.promise(), each.checks());
        if (each.open() > 0)
            text += fmt::format(" ({} open)", each.open());
    }
    const auto& seen = what.looked_at;
    text += fmt::format("\n{}, {}, {}, {}, {}", spoken_count(seen.messages, "message"),
                        spoken_count(seen.starts, "start"), spoken_count(seen.faults, "fault"),
                        spoken_count(what.checks(), "check"),
                        spoken_count(violations.size(), "violation"));
    if (seen.arrivals > 0)
        text += fmt::format(" ({} from outside, {})", seen.arrivals,
                            spoken_count(seen.effects, "effect"));
    if (seen.torn_lines > 0)
        text += fmt::format(" ({})", spoken_count(seen.torn_lines, "torn line"));
    return text + "\n";
}

std::string to_json_text(const judgement& what)
{
    nlohmann::json result{{"messages", what.looked_at.messages},
                          {"starts", what.looked_at.starts},
                          {"faults", what.looked_at.faults},
                          {"torn_lines", what.looked_at.torn_lines},
                          {"arrivals", what.looked_at.arrivals},
                          {"effects", what.looked_at.effects},
                          {"checks", what.checks()},
                          {"promises", nlohmann::json::object()},
                          {"violations", nlohmann::json::array()}};
    for (const auto& each : what.verdicts)
        result["promises"][each.promise()] = {{"checks", each.checks()}, {"open", each.open()}};
    for (const auto& each : what.violations())
        result["violations"].push_back({{"promise", each.promise},
                                        {"message", to_string(each.message)},
                                        {"sentence", each.sentence}});
    return result.dump(2) + "\n";
}

} // namespace posthorn::checker
