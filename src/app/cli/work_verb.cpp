// The verb `work`: a worker whose handlers are commands. A message arrives on standard input and in
// the environment, and the exit code says what became of it.
#include "app/cli/child_process.hpp"
#include "app/cli/console.hpp"
#include "app/cli/store_list.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/error.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fcntl.h>
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

// As sysexits.h has them.
constexpr int exit_for_good = 65;
constexpr int exit_try_again = 75;

// How long a child has between being asked to end and being killed: when its time is up, and when
// the worker itself must go at once.
constexpr duration patience_usual = 5s;
constexpr duration patience_in_hurry = 400ms;

// A machine that has no room for a process has some soon.
constexpr duration pause_without_room = 1s;

constexpr duration status_every = 500ms;

// What the handlers share. They may outlive the verb when a child cannot even be killed.
struct workplace {
    workplace(const work_request& request, const output& out, stop_request signals)
        : what(request), screen(out), stop(std::move(signals))
    {
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
};

// Whatever is inherited under one of our names belongs to a worker around this one.
bool is_ours(std::string_view variable)
{
    constexpr std::array names{"POSTHORN_ID=",    "POSTHORN_TOPIC=",          "POSTHORN_ATTEMPT=",
                               "POSTHORN_KEY=",   "POSTHORN_CORRELATION_ID=", "POSTHORN_HEADERS=",
                               "POSTHORN_STORE=", "POSTHORN_HEADER_"};
    return std::ranges::any_of(names, [&](const char* name) { return variable.starts_with(name); });
}

std::string as_variable(std::string_view header)
{
    std::string name = "POSTHORN_HEADER_";
    for (const char c : header) {
        const bool lower = c >= 'a' && c <= 'z';
        const bool plain = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        name.push_back(lower ? static_cast<char>(c - 'a' + 'A') : plain ? c : '_');
    }
    return name;
}

// The environment cannot hold zero bytes; POSTHORN_HEADERS has them all, escaped.
std::vector<std::string> environment_for(const delivery_view& view)
{
    const auto& which = view.message();
    std::vector<std::string> result;
    for (char** each = environ; *each != nullptr; ++each)
        if (!is_ours(*each))
            result.emplace_back(*each);
    const auto add = [&](std::string_view name, std::string_view value) {
        if (value.find('\0') == std::string_view::npos)
            result.push_back(fmt::format("{}={}", name, value));
    };
    add("POSTHORN_ID", to_string(which.receipt.id));
    add("POSTHORN_TOPIC", which.topic);
    add("POSTHORN_ATTEMPT", fmt::format("{}", which.attempt));
    add("POSTHORN_KEY", which.ordering_key);
    add("POSTHORN_CORRELATION_ID", which.correlation_id);
    if (!view.store().empty())
        add("POSTHORN_STORE", view.store());
    add("POSTHORN_HEADERS",
        ordered_json(which.headers).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    for (const auto& [name, value] : which.headers)
        add(as_variable(name), value);
    return result;
}

std::string in_words(const child_end& end)
{
    auto words = end.exit_code ? fmt::format("exited with {}", *end.exit_code)
                               : fmt::format("killed by signal {}", end.signal);
    auto said = std::string_view(end.last_output);
    constexpr std::string_view blank = " \t\r\n";
    while (!said.empty() && blank.find(said.back()) != std::string_view::npos)
        said.remove_suffix(1);
    while (!said.empty() && blank.find(said.front()) != std::string_view::npos)
        said.remove_prefix(1);
    if (said.empty())
        return words;
    words += ": ";
    // The end of a long story says most.
    const auto room = limits::error_bytes_max - words.size();
    if (said.size() > room)
        said.remove_prefix(said.size() - room);
    while (!said.empty() && (static_cast<unsigned char>(said.front()) & 0xc0U) == 0x80U)
        said.remove_prefix(1); // not in the middle of a character
    return words.append(said);
}

bool is_out_of_time(const delivery_view& view)
{
    const auto now = std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
    return view.deadline() && now >= *view.deadline();
}

outcome outcome_of(const child_end& end, const delivery_view& view, const work_request& what,
                   const std::string& program)
{
    if (end.start_error != 0) {
        const bool no_room = end.start_error == EAGAIN || end.start_error == ENOMEM ||
                             end.start_error == EMFILE || end.start_error == ENFILE;
        if (no_room)
            return postpone(pause_without_room);
        return retry(fmt::format("cannot start '{}': {}", program,
                                 std::generic_category().message(end.start_error)));
    }
    if (end.exit_code == 0)
        return done();
    if (end.exit_code == exit_for_good)
        return fail(in_words(end));
    if (end.exit_code == exit_try_again || !end.stopped)
        return retry(in_words(end));
    if (is_out_of_time(view))
        return retry(fmt::format("timed out after {} ms, {}",
                                 what.timeout.value_or(duration{}) / 1ms, in_words(end)));
    return postpone(duration::zero()); // the worker had to go: that is not the message's fault
}

std::string name_of(const delivery& which)
{
    return fmt::format("{} {}, attempt {}", to_string(which.receipt.id), printable(which.topic),
                       which.attempt);
}

outcome run_command(workplace& place, const command& what, const delivery_view& view)
{
    const auto patience = [&]() -> duration {
        if (place.stop.now.stop_requested())
            return patience_in_hurry;
        // When the worker drains, children are asked to end a quarter of the grace before its end.
        return place.stop.drain.stop_requested() ? std::min(patience_usual, place.what.grace / 8)
                                                 : patience_usual;
    };
    const auto end =
        run_child({.what = what,
                   .input = view.payload(),
                   .environment = environment_for(view),
                   .on_output = place.on_output,
                   .on_error_output = [&](std::string_view text) { place.screen.pass(text); },
                   .stop = view.stop_token(),
                   .patience = patience});
    auto said = outcome_of(end, view, place.what, what.words.front());
    if (said.verdict == outcome::kind::retry || said.verdict == outcome::kind::fail)
        place.screen.log(
            fmt::format("failed   {}: {}", name_of(view.message()), printable(said.error)));
    else if (said.verdict == outcome::kind::postpone)
        place.screen.log(fmt::format("put off  {}: {}", name_of(view.message()),
                                     end.start_error != 0 ? "no room for another process"
                                                          : "the worker had to go"));
    return said;
}

lifecycle told_to(const std::shared_ptr<workplace>& place)
{
    return {.settled = [place](const delivery& which, settled_as answer) {
        if (answer == settled_as::dead)
            place->screen.log(fmt::format("dead     {}", name_of(which)));
        else if (answer == settled_as::lost)
            place->screen.log(fmt::format("lost     {}: somebody else has it", name_of(which)));
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
    world.log = [place](log_level level, std::string_view line) {
        if (level >= log_level::warning)
            place->screen.log(printable(line));
    };
    const worker_options options{
        .name = what.name,
        .concurrency = what.concurrency,
        .lease = what.lease,
        .grace = what.grace,
        .outbox = {.retries = {.fallback =
                                   exponential_retry{.first = what.backoff,
                                                     .cap = std::max(what.backoff, duration{60s}),
                                                     .attempts_max = what.attempts}}},
        .defaults = {.timeout = what.timeout},
        .on = told_to(place)};
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
                where = open(place.what.which.urls.front());
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

// Children are born with descriptors 0 to 2, and their ends must reach us.
void prepare_process()
{
    int spare = ::open("/dev/null", O_RDWR);
    while (spare >= 0 && spare <= STDERR_FILENO)
        spare = ::open("/dev/null", O_RDWR);
    ::close(spare);
    std::signal(SIGCHLD, SIG_DFL);
}

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
    place.screen.log(fmt::format("ended    {}: {} done, {} to try again, {} dead, {} put back, {} "
                                 "parked, {} lost",
                                 ending, report.done, report.retrying, report.dead, report.released,
                                 report.parked, report.lost));
}

} // namespace

exit_status work(const work_request& what, output& to)
{
    prepare_process();
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
