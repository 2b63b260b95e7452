// The verb `stores`: how each of many stores is doing.
#include "app/cli/state_words.hpp"
#include "app/cli/store_list.hpp"
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/error.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/pauses.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

// Stores that are asked at the same time: one that does not answer holds up few others.
constexpr std::size_t asked_at_once = 8;

struct look_at_store {
    std::string name;
    store_stats counts = {};
    bool paused = false;
    std::string error = {}; ///< with this a worker opens its breaker for the store

    [[nodiscard]] std::string_view state() const
    {
        if (!error.empty())
            return "failing";
        if (paused)
            return "paused";
        return counts.ready + counts.claimed > 0 ? "busy" : "idle";
    }
    [[nodiscard]] std::int64_t backlog() const { return counts.ready + counts.waiting; }
};

look_at_store look_at(const named_store& which)
{
    look_at_store result{.name = which.name};
    try {
        auto where = open(which.url);
        result.counts = count_messages(where);
        result.paused = is_paused(list_pauses(where), {});
    } catch (const std::exception& failure) {
        result.error = failure.what();
    }
    return result;
}

std::vector<look_at_store> look_at_all(const std::vector<named_store>& all)
{
    std::vector<look_at_store> looks(all.size());
    std::atomic<std::size_t> next = 0;
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < std::min(asked_at_once, all.size()); ++i)
            threads.emplace_back([&] {
                for (auto at = next++; at < all.size(); at = next++)
                    looks[at] = look_at(all[at]);
            });
    }
    return looks;
}

ordered_json as_json(const look_at_store& one)
{
    ordered_json lag;
    if (one.counts.oldest_ready)
        lag = std::chrono::duration<double>(*one.counts.oldest_ready).count();
    return {{"name", one.name},
            {"state", one.state()},
            {"breaker", one.error.empty() ? "closed" : "open"},
            {"backlog", one.backlog()},
            {"lag_seconds", lag},
            {"claimed", one.counts.claimed},
            {"delayed", delayed_only(one.counts)},
            {"retrying", one.counts.retrying},
            {"dead", one.counts.dead},
            {"exact", one.counts.exact},
            {"error", one.error.empty() ? ordered_json() : ordered_json(one.error)}};
}

void print_looks(const std::vector<look_at_store>& looks, output& to)
{
    table rows({{"STORE", column::side::left, 60, column::cut::middle},
                {"STATE"},
                {"BREAKER"},
                {"BACKLOG", column::side::right},
                {"LAG", column::side::right},
                {"DEAD", column::side::right},
                {"ERROR", column::side::left, 100}});
    for (const auto& each : looks) {
        const bool failing = !each.error.empty();
        const auto number = [&](std::int64_t count) {
            return failing ? "-" : fmt::format("{}{}", each.counts.exact ? "" : "~", count);
        };
        rows.add({{each.name},
                  {std::string(each.state()), failing       ? tint::red
                                              : each.paused ? tint::yellow
                                                            : tint::none},
                  {failing ? "open" : "closed", failing ? tint::red : tint::none},
                  {number(each.backlog())},
                  {each.counts.oldest_ready ? age(*each.counts.oldest_ready) : "-"},
                  {failing ? "-" : fmt::format("{}", each.counts.dead),
                   each.counts.dead > 0 ? tint::red : tint::none},
                  {each.error}});
    }
    rows.print(to);
}

} // namespace

exit_status show_stores(const stores_request& what, output& to)
{
    const auto all = list_stores(what.which);
    if (all.empty())
        throw error(error_code::invalid_argument, "this means no store at all");
    const auto looks = look_at_all(all);
    const auto failing = static_cast<std::size_t>(
        std::ranges::count_if(looks, [](const auto& each) { return !each.error.empty(); }));
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : looks)
            list.push_back(as_json(each));
        to.document({{"stores", std::move(list)}, {"failing", failing}});
    } else {
        print_looks(looks, to);
        to.line(fmt::format("\n{}, {} failing", counted(looks.size(), "store"), failing));
    }
    return failing == 0 ? exit_status::success : exit_status::failure;
}

} // namespace posthorn::cli
