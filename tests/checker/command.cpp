// The command line: what to read, what was allowed, and how to tell.
#include "checker/command.hpp"

#include "checker/history.hpp"
#include "checker/report.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <ostream>

namespace posthorn::checker {
namespace {

struct request {
    std::vector<std::filesystem::path> histories;
    std::string store;
    std::filesystem::path final;
    std::filesystem::path save_final;
    checker::bounds bounds;
    bool json = false;
};

void add_duration(CLI::App& app, const std::string& name, duration& target, const std::string& help)
{
    app.add_option_function<std::string>(
           name,
           [&target, name](const std::string& text) {
               try {
                   target = contract::parse_duration(text);
               } catch (const error& wrong) {
                   throw CLI::ValidationError(name, wrong.what());
               }
           },
           help)
        ->type_name("TIME");
}

void describe(CLI::App& app, request& what)
{
    app.add_option("HISTORY", what.histories, "files of events, see README.md")->required();
    auto* tables = app.add_option_group("tables", "where the final tables are");
    tables->add_option("--store", what.store, "the URL of a store")->type_name("URL");
    tables->add_option("--final", what.final, "a dump of a store")->type_name("FILE");
    tables->require_option(1);
    app.add_option("--save-final", what.save_final, "write a dump of the store")->type_name("FILE");
    app.add_option("--attempts-max", what.bounds.attempts_max,
                   "starts allowed (default 10; 0 for retries without end)")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("N");
    add_duration(app, "--settle-within", what.bounds.settle_within,
                 "how long after the faults everything may take to end (default 60s)");
    add_duration(app, "--clock-tolerance", what.bounds.clock_tolerance,
                 "how far clocks may differ (default 0s)");
    app.add_flag("--done-forgotten", what.bounds.done_forgotten, "the store forgets what is done");
    app.add_option("--may-wait", what.bounds.may_wait, "a topic that nobody handles")
        ->allow_extra_args(false)
        ->type_name("TOPIC");
    app.add_flag("--json", what.json, "print one JSON object");
}

history read_told(const request& what)
{
    auto told = read_history(what.histories);
    if (std::ranges::none_of(told.events, [](const auto& each) {
            return std::holds_alternative<enqueue_event>(each.what) ||
                   std::holds_alternative<feed_event>(each.what);
        }))
        throw error(error_code::invalid_argument,
                    "the history tells of no enqueued message: there is nothing to judge");
    return told;
}

final_state read_found(const request& what)
{
    if (what.store.empty())
        return read_final(what.final);
    auto where = open(what.store);
    return read_final(where);
}

int judge_and_tell(const request& what, std::ostream& out)
{
    const auto told = read_told(what);
    const auto found = read_found(what);
    if (!what.save_final.empty())
        write_final(found, what.save_final);
    const auto result = judge(told, found, what.bounds);
    out << (what.json ? to_json_text(result) : to_text(result));
    return result.violations().empty() ? 0 : 1;
}

} // namespace

int run_checker(std::vector<std::string> arguments, std::ostream& out, std::ostream& err)
{
    CLI::App app("Judges what a store promised by a history and the final tables.",
                 "posthorn-checker");
    request what;
    describe(app, what);
    try {
        std::ranges::reverse(arguments); // CLI11 takes them from the back
        app.parse(std::move(arguments));
        return judge_and_tell(what, out);
    } catch (const CLI::ParseError& wrong) {
        return app.exit(wrong, out, err) == 0 ? 0 : 2;
    } catch (const std::exception& failure) {
        err << "posthorn-checker: " << failure.what() << "\n";
        return 2;
    }
}

} // namespace posthorn::checker
