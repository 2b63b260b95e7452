// From words to a verb, and from what happens to an exit code.
#include "app/cli/command_line.hpp"

#include "app/cli/text.hpp"
#include "app/cli/verb_tree.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace posthorn::cli {
namespace {

// CLI11 knows nothing of commands: takes `-- COMMAND… [--on PATTERN -- COMMAND…]…` off the end.
// The patterns of the first command are options like others, and left to CLI11.
std::vector<work_request::route> take_commands(std::vector<const char*>& words)
{
    const auto first = std::ranges::find(words, std::string_view{"--"});
    const std::vector<std::string> rest(first == words.end() ? first : first + 1, words.end());
    words.erase(first, words.end());
    std::vector<work_request::route> routes(1);
    for (std::size_t at = 0; at < rest.size();) {
        auto end = at; // of `--on PATTERN` as often as it stands here
        while (end + 1 < rest.size() && rest[end] == "--on")
            end += 2;
        if (end == at || end >= rest.size() || rest[end] != "--") {
            routes.back().command.push_back(rest[at++]);
            continue;
        }
        routes.emplace_back();
        for (; at < end; at += 2)
            routes.back().patterns.push_back(rest[at + 1]);
        ++at;
    }
    return routes;
}

bool asks_for_json(int argc, const char* const* argv)
{
    const auto* const end = std::find(argv, argv + argc, std::string_view{"--"});
    return std::find(argv, end, std::string_view{"--json"}) != end;
}

output::form form_for(bool json)
{
    return json ? output::form::json : output::form::text;
}

// What goes wrong while a verb runs, in words and as an exit code.
exit_status carry_out(const verb_tree::call& call, output& to)
{
    try {
        const auto status = call(to);
        if (to.finish())
            return status;
        to.error(to_string(error_code::unavailable),
                 "the result cannot be written to standard output");
    } catch (const error& failure) {
        to.error(to_string(failure.code()), failure.what());
        return failure.code() == error_code::invalid_argument ? exit_status::usage
                                                              : exit_status::failure;
    } catch (const std::system_error& failure) {
        const bool no_thread = failure.code() == std::errc::resource_unavailable_try_again;
        to.error(to_string(no_thread ? error_code::unavailable : error_code::internal),
                 no_thread
                     ? "the system has no room for another thread: raise the limits of memory "
                       "and processes (ulimit -v, ulimit -u)"
                     : failure.what());
    } catch (const std::bad_alloc&) {
        throw; // there may not even be room for words
    } catch (const std::exception& failure) {
        to.error(to_string(error_code::internal), failure.what());
    }
    return exit_status::failure;
}

} // namespace

// CLI11 would call a misspelt verb an unexpected argument.
void verb_tree::refuse_unknown_verb(const CLI::App& parent, std::string_view typed)
{
    std::vector<std::string> names;
    for (const auto* each : parent.get_subcommands({}))
        names.push_back(each->get_name());
    if (typed.starts_with('-') || std::ranges::find(names, typed) != names.end())
        return;
    const auto meant = nearest(typed, names);
    throw CLI::ExtrasError(
        fmt::format("there is no verb '{}'{}", printable(typed),
                    meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)),
        CLI::ExitCodes::ExtrasError);
}

verb_tree::call verb_tree::parse(int argc, const char* const* argv)
{
    const bool below_dead = argc > 1 && std::string_view{argv[1]} == "dead";
    const int verb_at = below_dead ? 2 : 1;
    if (argc <= verb_at)
        throw CLI::RequiredError("a verb is missing", CLI::ExitCodes::RequiredError);
    refuse_unknown_verb(below_dead ? *root_.get_subcommand("dead") : root_, argv[verb_at]);
    std::vector<const char*> words(argv, argv + argc);
    if (words[1] == std::string_view{"work"})
        asked_.work.routes = take_commands(words);
    const bool has_list = std::ranges::any_of(
        words, [](std::string_view word) { return word.starts_with("--stores"); });
    for (const auto* each : {"work", "stores", "relay"})
        root_.get_subcommand(each)->get_option("URL")->required(!has_list);
    root_.parse(static_cast<int>(words.size()), words.data());
    if (!asked_.work.routes.empty())
        asked_.work.routes.front().patterns = patterns_;
    return chosen_;
}

std::string verb_tree::name_so_far() const
{
    std::string name = root_.get_name();
    for (const auto* app = &root_; !app->get_subcommands().empty(); name += " " + app->get_name())
        app = app->get_subcommands().front();
    return name;
}

exit_status run(int argc, const char* const* argv)
{
    verb_tree verbs;
    try {
        const auto call = verbs.parse(argc, argv);
        output to(form_for(verbs.json()));
        return carry_out(call, to);
    } catch (const CLI::Success& asked) {
        output to(output::form::text);
        const bool version = dynamic_cast<const CLI::CallForVersion*>(&asked) != nullptr;
        return carry_out(
            [&](output& stream) {
                stream.write(version ? std::string(asked.what()) + "\n" : verbs.help());
                return exit_status::success;
            },
            to);
    } catch (const CLI::ParseError& wrong) {
        const output to(form_for(asks_for_json(argc, argv)));
        to.error(to_string(error_code::invalid_argument), wrong.what());
        to.note(fmt::format("see `{} --help`", verbs.name_so_far()));
        return exit_status::usage;
    }
}

} // namespace posthorn::cli
