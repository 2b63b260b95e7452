// The verb `trace`: a correlation as a tree of what caused what.
#include "app/cli/job_requests.hpp"
#include "app/cli/progress.hpp"
#include "app/cli/record_view.hpp"
#include "app/cli/state_words.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>
#include <posthorn/trace.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

// Deeper ones are numbered instead of indented.
constexpr std::size_t indented_max = 20;
constexpr std::size_t name_columns_max = 60;

// For each message, what stands in front of its topic.
std::vector<std::string> branches(const std::vector<traced_message>& tree)
{
    std::vector<std::optional<std::size_t>> last_child(tree.size());
    for (std::size_t i = 0; i < tree.size(); ++i)
        if (tree[i].caused_by)
            last_child[*tree[i].caused_by] = i;
    std::vector<std::string> result(tree.size());
    std::vector<std::string> below(tree.size()); // what its children have in front
    for (std::size_t i = 0; i < tree.size(); ++i) {
        const auto& cause = tree[i].caused_by;
        if (!cause)
            continue;
        if (tree[i].depth > indented_max) {
            result[i] = fmt::format("({} deep) ", tree[i].depth);
            continue;
        }
        const bool last = last_child[*cause] == i;
        result[i] = below[*cause] + (last ? "└─ " : "├─ ");
        below[i] = below[*cause] + (last ? "   " : "│  ");
    }
    return result;
}

// `870us`, `12ms`, `3.4s`, and from a minute on as everywhere.
std::string span_in_words(duration length)
{
    const auto micros = std::max<std::int64_t>(length.count(), 0);
    if (micros < 1'000)
        return fmt::format("{}us", micros);
    if (micros < 1'000'000)
        return fmt::format("{}ms", micros / 1'000);
    if (micros < 60'000'000)
        return fmt::format("{:.1f}s", static_cast<double>(micros) / 1e6);
    return age(length);
}

std::string times_of(const message_record& what)
{
    std::string words = iso_time(what.created_at);
    if (what.started_at)
        words += fmt::format("  waited {}", span_in_words(*what.started_at - what.created_at));
    if (what.started_at && what.finished_at)
        words += fmt::format("  ran {}", span_in_words(*what.finished_at - *what.started_at));
    if (what.attempts > 1)
        words += fmt::format("  {}", counted(static_cast<std::size_t>(what.attempts), "attempt"));
    if (!what.last_error.empty())
        words += fmt::format("  {}", printable(what.last_error));
    return words;
}

void print_tree(const message_trace& found, output& to)
{
    auto names = branches(found.messages);
    std::size_t width = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
        names[i] += shortened(printable(found.messages[i].record.topic), name_columns_max);
        width = std::max(width, std::min(columns(names[i]), name_columns_max));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto& what = found.messages[i].record;
        const auto gap = width - std::min(width, columns(names[i]));
        to.line(fmt::format("{}{}  {}  {}  {}", names[i], std::string(gap, ' '),
                            to.tinted(fmt::format("{:<9}", word_of(what)), tint_of(what.state)),
                            to_string(what.id), times_of(what)));
    }
}

// A correlation that is an execution of a job begins with it.
std::optional<execution_record> execution_of(store& where, const message_trace& found)
{
    const auto id = execution_id::parse(found.correlation_id);
    return id ? find_execution(where, *id) : std::nullopt;
}

ordered_json as_json(const message_trace& found, const std::optional<execution_record>& run)
{
    auto list = ordered_json::array();
    for (const auto& each : found.messages) {
        auto next = record_as_json(each.record, payload_view::hidden);
        next["caused_by"] = each.caused_by
                                ? ordered_json(to_string(found.messages[*each.caused_by].record.id))
                                : ordered_json();
        next["depth"] = each.depth;
        list.push_back(std::move(next));
    }
    return {{"correlation", found.correlation_id},
            {"execution", run ? execution_as_json(*run) : ordered_json()},
            {"messages", std::move(list)},
            {"since", found.since ? ordered_json(iso_time(*found.since)) : ordered_json()},
            {"complete", found.complete}};
}

} // namespace

exit_status trace(const trace_request& what, output& to)
{
    auto where = open(what.url);
    trace_options how{.limit = what.limit};
    if (what.since)
        how.since = where.environment().clock->now() - *what.since;
    std::optional<progress_bar> bar;
    how.progress = [&](std::int64_t done, std::int64_t of) {
        if (!bar)
            bar.emplace("looking", static_cast<std::size_t>(of), to);
        bar->show(static_cast<std::size_t>(done));
        return true;
    };
    const auto found = trace_messages(where, what.correlation, how);
    bar.reset();
    if (found.messages.empty())
        throw error(error_code::not_found,
                    fmt::format("no message since {} belongs to '{}'; --since looks further back",
                                iso_time(found.since.value_or(timestamp{})),
                                printable(what.correlation)));
    const auto run = execution_of(where, found);
    if (to.json()) {
        to.document(as_json(found, run));
    } else {
        if (run)
            to.line(execution_in_words(*run));
        print_tree(found, to);
    }
    if (!found.complete)
        to.note(fmt::format("there are more than {}: --limit", what.limit));
    return exit_status::success;
}

} // namespace posthorn::cli
