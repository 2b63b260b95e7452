// The verb `work`: a worker whose handlers are commands.
#include "app/cli/command_handler.hpp"
#include "app/cli/console.hpp"
#include "app/cli/store_list.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include "app/daemon/secret.hpp"
#include <posthorn/error.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace posthorn::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

constexpr duration status_every = 500ms;

// What the handlers share. They may outlive the verb when a child cannot even be killed.
struct workplace {
    workplace(const work_request& request, const output& out, stop_request signals)
        : what(request), screen(out), stop(std::move(signals))
    {
        for (const auto& url : what.which.urls)
            for (auto& each : daemon::secret_url(url).secrets())
                secrets.add(std::move(each));
        for (auto& each : daemon::inherited_passwords())
            secrets.add(std::move(each));
        // Beside a JSON document there is no place for it, and a status must not be drawn over it.
        if (out.json())
            on_output = [this](std::string_view text) { screen.pass(text); };
        else if (screen.live() && ::isatty(STDOUT_FILENO) == 1)
            on_output = [this](std::string_view text) { screen.pass(text, stdout); };
    }
    workplace(const workplace&) = delete;
    workplace& operator=(const workplace&) = delete;
    ~workplace() = default;

    const work_request what;
    console screen;
    std::function<void(std::string_view)> on_output; ///< of children; empty: it is ours
    const stop_request stop;
    daemon::redaction secrets; ///< which handlers may know, and say
    const std::shared_ptr<process_shortage> shortage = std::make_shared<process_shortage>();
};

std::string name_of(const delivery& which)
{
    return fmt::format("{} {}, attempt {}", to_string(which.receipt.id), printable(which.topic),
                       which.attempt);
}

outcome run_command(workplace& place, const command& what, const delivery_view& view)
{
    const auto end = handle_by_command(
        what, view,
        {.timeout = place.what.timeout,
         .grace = place.what.grace,
         .stop = place.stop,
         .on_output = place.on_output,
         .on_error_output = [&](std::string_view text) { place.screen.pass(text); },
         .filter = {.cleaned = [&](std::string text) { return place.secrets.cleaned(text); },
                    .secret_bytes_max = place.secrets.bytes_max()},
         .shortage = place.shortage,
         .on_shortage = [&](std::string_view line) { place.screen.log(line); }});
    const auto& said = end.said;
    if (!end.put_off_because.empty())
        place.screen.log(
            fmt::format("put off  {}: {}", name_of(view.message()), end.put_off_because));
    return said;
}

lifecycle told_to(const std::shared_ptr<workplace>& place)
{
    return {.ended =
                [place](const delivery_view& view, const outcome& said, duration) {
                    const bool failed =
                        said.verdict == outcome::kind::retry || said.verdict == outcome::kind::fail;
                    if (failed)
                        place->screen.log(fmt::format("failed   {}: {}", name_of(view.message()),
                                                      printable(said.error)));
                },
            .settled =
                [place](const delivery_view& view, settled_as answer) {
                    const auto& which = view.message();
                    if (answer == settled_as::dead)
                        place->screen.log(fmt::format("dead     {}", name_of(which)));
                    else if (answer == settled_as::lost)
                        place->screen.log(
                            fmt::format("lost     {}: another worker has it", name_of(which)));
                    else if (answer == settled_as::done && place->what.verbose)
                        place->screen.log(fmt::format("done     {}", name_of(which)));
                }};
}

// Patterns and files are read again from time to time.
store_provider many_stores(const work_request& what, const environment& world)
{
    if (list_stores(what.which).empty())
        throw error(error_code::invalid_argument, "this means no store at all");
    return discover([which = what.which] { return list_stores(which); },
                    {.every = what.refresh, .with = {.open = {.environment = world}}});
}

// The commands are looked up before anything is claimed.
worker make_worker(const std::shared_ptr<workplace>& place)
{
    const auto& what = place->what;
    std::vector<std::pair<std::string, std::shared_ptr<const command>>> routes;
    for (const auto& each : what.routes) {
        const auto found = std::make_shared<const command>(find_command(each.command));
        for (const auto& pattern : each.patterns)
            routes.emplace_back(pattern, found);
    }
    auto world = environment::system();
    world.log =
        log_sink([place](log_level, std::string_view line) { place->screen.log(printable(line)); },
                 what.verbose ? log_level::debug : log_level::warning);
    const worker_options options{.name = what.name,
                                 .concurrency = what.concurrency,
                                 .lease = what.lease,
                                 .grace = what.grace,
                                 .outbox = outbox_for(what.failures),
                                 .defaults = {.timeout = what.timeout},
                                 .on = told_to(place),
                                 .log_activity = false};
    auto result = what.which.is_one_store()
                      ? worker(open(what.which.urls.front(), {.environment = world}), options)
                      : worker(many_stores(what, world), options);
    for (const auto& [pattern, found] : routes)
        result.handle(pattern, [place, found = found](const delivery_view& view) {
            return run_command(*place, *found, view);
        });
    return result;
}

// What a watcher sees: redrawn twice a second, from a thread of its own.
class live_status {
public:
    live_status(const worker& of, workplace& place)
    {
        if (place.screen.live())
            thread_ = std::jthread(
                [this, &of, &place](const std::stop_token& stop) { watch(stop, of, place); });
    }

private:
    void watch(const std::stop_token& stop, const worker& of, workplace& place)
    {
        std::unique_lock lock(mutex_);
        auto counted_at = std::chrono::steady_clock::time_point{};
        std::size_t before = 0;
        std::string backlog;
        const bool many = !place.what.which.is_one_store();
        try {
            std::optional<store> where;
            if (!many)
                where = open(place.what.which.urls.front(),
                             {.environment = environment::system(std::nullopt)});
            while (
                !wake_.wait_for(lock, stop, status_every, [&] { return stop.stop_requested(); })) {
                const auto status = of.status();
                const auto now = std::chrono::steady_clock::now();
                if (many) {
                    const auto all = of.stores();
                    const auto failing = std::ranges::count_if(
                        all, [](const store_status& each) { return each.failures > 0; });
                    backlog = fmt::format("stores {}, {} failing", all.size(), failing);
                } else if (now - counted_at > 2s) {
                    const auto counts = count_messages(*where);
                    backlog = fmt::format(
                        "backlog {}{}", counts.ready + counts.waiting,
                        counts.oldest_ready ? fmt::format(", oldest {}", age(*counts.oldest_ready))
                                            : "");
                    counted_at = now;
                }
                const auto handled = status.so_far.handled();
                place.screen.show(fmt::format(
                    "{:.0f}/s  {}  running {}  done {}  retrying {}  dead {}{}",
                    static_cast<double>(handled - before) / 0.5, backlog, status.running,
                    status.so_far.done, status.so_far.retrying, status.so_far.dead,
                    place.stop.drain.stop_requested() ? "  (ending; once more to end now)" : ""));
                before = handled;
            }
        } catch (const std::exception&) {
            return; // the worker meets the same failure, and reports it
        }
    }

    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread thread_; // last: it must be gone before what it uses
};

std::string_view ending_of(const workplace& place, const run_report& report)
{
    if (place.stop.now.stop_requested())
        return "stopped_now";
    if (place.stop.drain.stop_requested())
        return "stopped";
    const bool enough = !place.what.until_empty || report.handled() >= place.what.limit;
    return enough ? "limit" : "empty";
}

void tell(const run_report& report, std::string_view ending, workplace& place, output& to)
{
    if (to.json())
        return to.document({{"ended", ending},
                            {"done", report.done},
                            {"retrying", report.retrying},
                            {"dead", report.dead},
                            {"released", report.released},
                            {"parked", report.parked},
                            {"lost", report.lost},
                            {"left_running", report.left_running}});
    place.screen.log(fmt::format("ended    {}: {} done, {} retrying, {} dead, {} released, {} "
                                 "parked, {} lost",
                                 ending, report.done, report.retrying, report.dead, report.released,
                                 report.parked, report.lost));
}

} // namespace

exit_status work(const work_request& what, output& to)
{
    prepare_for_children();
    const stop_on_signals signals;
    const auto place = std::make_shared<workplace>(what, to, signals.request());
    auto handling = make_worker(place);
    place->screen.log(fmt::format("working  as {}", printable(handling.options().name)));
    run_report report;
    {
        const live_status status(handling, *place);
        report = handling.run(place->stop, {.until_empty = what.until_empty, .limit = what.limit});
    }
    place->screen.clear();
    const auto ending = ending_of(*place, report);
    tell(report, ending, *place, to);
    return ending == "stopped_now" ? exit_status::failure : exit_status::success;
}

} // namespace posthorn::cli
