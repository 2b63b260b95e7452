// The verbs of the inbox and of commands' keys, as the command line knows them.
#include "app/cli/values.hpp"
#include "app/cli/verb_tree.hpp"

namespace posthorn::cli {
namespace {

void add_inbound(CLI::App& to, inbound& from)
{
    to.add_option("SOURCE", from.source, "who sent it")->required()->type_name("");
    to.add_option("ID", from.id, "what its sender calls it")->required()->type_name("");
}

void add_command_key(CLI::App& to, command_key_request& what)
{
    to.add_option("COMMAND", what.command, "the command's name")->required()->type_name("");
    to.add_option("KEY", what.key, "its key")->required()->type_name("");
}

void add_limit(CLI::App& to, std::size_t& limit)
{
    to.add_option("--limit", limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
}

} // namespace

void verb_tree::declare_inbox()
{
    group_ = "What comes from outside";
    auto& inbox = *root_.add_subcommand("inbox", "look at messages from outside");
    inbox.group(group_);
    inbox.require_subcommand(1);
    inbox.footer("Example:\n"
                 "  posthorn inbox list sqlite:orders.db --state dead\n"
                 "  posthorn inbox revive sqlite:orders.db shop order-4711\n\n"
                 "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    auto& list = verb(inbox,
                      {"list", "list messages from outside, in the order in which they came",
                       "  posthorn inbox list sqlite:orders.db\n"
                       "  posthorn inbox list sqlite:orders.db --state dead --source shop"},
                      asked_.inbox_list, &cli::list_of_inbox);
    auto& filter = asked_.inbox_list.filter;
    add_parsed(list, "--state", filter.state, &read_inbox_state, "only in this state")
        ->type_name("STATE");
    add_filter(list, "--source", filter.source, "only of this sender");
    add_limit(list, filter.limit);
    list.add_option("--after", filter.after_position, "go on behind this position")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("POSITION");

    constexpr auto unknown = "no such message came, or the store failed";
    add_inbound(verb(inbox,
                     {"show", "show what is known of a message from outside",
                      "  posthorn inbox show sqlite:orders.db shop order-4711", unknown},
                     asked_.inbox_show, &cli::show_inbound),
                asked_.inbox_show.from);

    auto& again = asked_.inbox_revive;
    auto& revive = verb(inbox,
                        {"revive", "give a dead message from outside new attempts",
                         "  posthorn inbox revive sqlite:orders.db shop order-4711\n"
                         "  posthorn inbox revive sqlite:orders.db shop order-4711 --delay 10m",
                         "it is not dead, no such message came, or the store failed"},
                        again, &cli::revive_inbound);
    add_inbound(revive, again.from);
    add_duration(revive, "--delay", again.delay, "not before so long from now");
}

void verb_tree::declare_command_keys()
{
    auto& keys = *root_.add_subcommand("keys", "look at keys of commands, and let go of them");
    keys.group(group_);
    keys.require_subcommand(1);
    keys.footer("Example:\n"
                "  posthorn keys list sqlite:orders.db --state in-progress\n"
                "  posthorn keys release sqlite:orders.db charge "
                "6f1c3a52-7c1b-4a5e-9c58-2f5a37c60b11\n\n"
                "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    auto& asked = asked_.keys_list;
    auto& list = verb(keys,
                      {"list", "list keys of commands, by their names",
                       "  posthorn keys list sqlite:orders.db\n"
                       "  posthorn keys list sqlite:orders.db --command charge --state failed"},
                      asked, &cli::list_command_keys);
    add_filter(list, "--command", asked.filter.command, "only of this command");
    add_parsed(list, "--state", asked.filter.state, &read_key_state, "only in this state")
        ->type_name("STATE");
    add_limit(list, asked.filter.limit);
    list.add_option("--after", asked.after, "go on behind this key")
        ->expected(2)
        ->type_name("")
        ->option_text("COMMAND KEY");

    constexpr auto unknown = "there is no such key, or the store failed";
    auto& show = verb(keys,
                      {"show", "show a key of a command, and what it answers",
                       "  posthorn keys show sqlite:orders.db charge "
                       "6f1c3a52-7c1b-4a5e-9c58-2f5a37c60b11 --result",
                       unknown},
                      asked_.keys_show, &cli::show_command_key);
    add_command_key(show, asked_.keys_show);
    show.add_flag("--result", asked_.keys_show.with_result, "show the stored result, too");

    add_command_key(
        verb(keys,
             {"release", "forget a key: its command can run again, and who runs it cannot complete",
              "  posthorn keys release sqlite:orders.db charge "
              "6f1c3a52-7c1b-4a5e-9c58-2f5a37c60b11",
              unknown},
             asked_.keys_release, &cli::release_command_key),
        asked_.keys_release);
}

} // namespace posthorn::cli
