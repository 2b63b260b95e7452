// A message arrives on standard input and in the environment, and the exit code says what became of
// it.
#include "app/cli/command_handler.hpp"

#include <posthorn/message.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <set>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

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
constexpr duration patience_for_room = 5s;
constexpr duration pause_for_room_min = 20ms;

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

// Several headers can have the same variable. A header of the sender's never stands where one of
// Posthorn's own would: `posthorn_source` is not `posthorn-source`. Others that share a variable
// get none, because nothing says which of them is meant.
std::map<std::string, std::string> headers_by_variable(const posthorn::headers& all)
{
    std::map<std::string, std::string> result;
    std::set<std::string> taken;
    for (const auto& [name, value] : all) {
        const auto variable = as_variable(name);
        if (variable.starts_with("POSTHORN_HEADER_POSTHORN_") && !name.starts_with("posthorn-"))
            continue;
        if (!taken.insert(variable).second)
            result.erase(variable);
        else
            result.emplace(variable, value);
    }
    return result;
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
    for (const auto& [name, value] : headers_by_variable(which.headers))
        add(name, value);
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

monotonic_time monotonic_now()
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
}

bool is_out_of_time(const delivery_view& view)
{
    return view.deadline() && monotonic_now() >= *view.deadline();
}

bool has_no_room(const child_end& end)
{
    return end.start_error == EAGAIN || end.start_error == ENOMEM || end.start_error == EMFILE ||
           end.start_error == ENFILE;
}

duration tell_shortage(const command_rules& how, int start_error)
{
    const auto met = how.shortage->met(monotonic_now());
    if (met.begins && how.on_shortage)
        how.on_shortage(
            fmt::format("no room for another process ({}): messages wait until there is",
                        std::generic_category().message(start_error)));
    return met.pause;
}

void tell_end_of_shortage(const command_rules& how)
{
    const auto refused = how.shortage->over(monotonic_now());
    if (refused && how.on_shortage)
        how.on_shortage(
            fmt::format("there is room for processes again; refused meanwhile: {}", *refused));
}

outcome outcome_of(const child_end& end, const delivery_view& view,
                   const std::optional<duration>& timeout, const std::string& program)
{
    if (end.start_error != 0)
        return retry(fmt::format("cannot start '{}': {}", program,
                                 std::generic_category().message(end.start_error)));
    if (end.exit_code == 0)
        return done();
    if (end.exit_code == exit_for_good)
        return fail(in_words(end));
    if (end.exit_code == exit_try_again || !end.stopped)
        return retry(in_words(end));
    if (is_out_of_time(view))
        return retry(fmt::format("timed out after {} ms, {}", timeout.value_or(duration{}) / 1ms,
                                 in_words(end)));
    return postpone(duration::zero()); // the worker had to go: that is not the message's fault
}

} // namespace

command_end handle_by_command(const command& what, const delivery_view& view,
                              const command_rules& how)
{
    const auto patience = [&]() -> duration {
        if (how.stop.now.stop_requested())
            return patience_in_hurry;
        // When the worker drains, children are asked to end a quarter of the grace before its end.
        return how.stop.drain.stop_requested() ? std::min(patience_usual, how.grace / 8)
                                               : patience_usual;
    };
    const auto run = [&] {
        return run_child({.what = what,
                          .input = view.payload(),
                          .environment = environment_for(view),
                          .on_output = how.on_output,
                          .on_error_output = how.on_error_output,
                          .filter = how.filter,
                          .stop = view.stop_token(),
                          .patience = patience});
    };
    auto end = run();
    // A message that waits here keeps its place, so that no more are claimed than can be handled.
    const auto give_up_at = monotonic_now() + patience_for_room;
    for (auto pause = pause_for_room_min; has_no_room(end);
         pause = std::min<duration>(2 * pause, 1s)) {
        const auto come_back = tell_shortage(how, end.start_error);
        if (view.stop_token().stop_requested() || monotonic_now() >= give_up_at)
            return {.said = postpone(come_back)};
        how.shortage->wait(pause, view.stop_token());
        end = run();
    }
    tell_end_of_shortage(how);
    command_end result{.said = outcome_of(end, view, how.timeout, what.words.front())};
    if (result.said.verdict == outcome::kind::postpone)
        result.put_off_because = "the worker had to go";
    return result;
}

void prepare_for_children()
{
    int spare = ::open("/dev/null", O_RDWR);
    while (spare >= 0 && spare <= STDERR_FILENO)
        spare = ::open("/dev/null", O_RDWR);
    ::close(spare);
    std::signal(SIGCHLD, SIG_DFL);
}

} // namespace posthorn::cli
