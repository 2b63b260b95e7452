// The verbs, one after the other, in the order of the help.
#include "app/cli/verb_tree.hpp"

#include "app/cli/values.hpp"

#include <memory>

namespace posthorn::cli {
namespace {

void add_id(CLI::App& verb, message_request& what)
{
    add_parsed(verb, "ID", what.id, &read_id, "the message's id")->required()->type_name("");
}

void add_page(CLI::App& verb, message_filter& filter)
{
    add_filter(verb, "--topic", filter.topic,
               "only this topic; with * at the end, all that start so");
    verb.add_option("--limit", filter.limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
    verb.add_option("--after", filter.after_position, "go on behind this position")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("POSITION");
}

void add_selection(CLI::App& verb, dead_selection& which, bool& dry_run)
{
    add_parsed(verb, "ID", which.id, &read_id, "one message")->type_name("");
    add_filter(verb, "--topic", which.topic,
               "all of this topic; with * at the end, all that start so");
    add_filter(verb, "--error", which.error, "all whose last error contains this");
    verb.add_flag("--all", which.all, "all there are");
    verb.add_flag("--dry-run", dry_run, "only say how many");
}

} // namespace

void add_selection_of_stores(CLI::App& verb, store_selection& which)
{
    verb.add_option("URL", which.urls, "stores, such as sqlite:orders.db or 'sqlite:tenants/*.db'")
        ->required()
        ->type_name("");
    verb.add_option("--stores", which.file,
                    "a file with a URL per line, or name = URL; # begins a comment")
        ->type_name("FILE");
}

verb_tree::verb_tree()
{
    root_.formatter(std::make_shared<help_form>());
    root_.set_help_flag("-h,--help", "show this help");
    root_.set_version_flag("--version", "posthorn " POSTHORN_VERSION, "show the version");
    root_.require_subcommand(1);
    root_.footer(
        "Example:\n"
        "  posthorn init sqlite:orders.db\n"
        "  posthorn enqueue sqlite:orders.db --topic orders.placed --payload '{\"order\": 7}'\n"
        "  posthorn work sqlite:orders.db --on 'orders.*' -- ./handle-order\n\n"
        "`posthorn demo` shows it at work. `posthorn VERB --help` tells more, with examples.\n"
        "Every verb takes --json. "
        "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    declare_store_verbs();
    declare_enqueue();
    declare_message_verbs();
    declare_why_and_tail();
    declare_trace();
    declare_work();
    declare_serve();
    declare_relay();
    declare_feed();
    declare_pauses();
    declare_joins();
    declare_inbox();
    declare_command_keys();
    declare_leases();
    declare_jobs();
    declare_dead_verbs();
    declare_demo();
}

void verb_tree::declare_store_verbs()
{
    group_ = "Stores";
    verb(root_,
         {"init", "create a store, or complete it; repeating it is harmless",
          "  posthorn init sqlite:orders.db\n"
          "  posthorn init 'sqlite:orders.db?prefix=mail_'"},
         asked_.init, &cli::init);

    auto& migrate = verb(root_,
                         {"migrate", "bring a store's tables up to date",
                          "  posthorn migrate sqlite:orders.db\n"
                          "  posthorn migrate sqlite:orders.db --print > posthorn.sql"},
                         asked_.migrate, &cli::migrate);
    migrate.add_flag("--print", asked_.migrate.print,
                     "print the SQL for an empty database, touch nothing");

    verb(root_,
         {"stats", "count messages by state",
          "  posthorn stats sqlite:orders.db\n"
          "  posthorn stats sqlite:orders.db --json"},
         asked_.stats, &cli::stats);

    auto& clean = verb(root_,
                       {"clean", "remove what has outlived its retention",
                        "  posthorn clean sqlite:orders.db --keep 7d\n"
                        "  posthorn clean sqlite:orders.db --keep 0s --keep-dead 90d"},
                       asked_.clean, &cli::clean);
    add_duration(clean, "--keep", asked_.clean.rules.finished,
                 "keep done, cancelled and expired messages this long (default 7d)");
    add_duration(clean, "--keep-dead", asked_.clean.rules.dead,
                 "keep dead messages this long (default: until purged)");
    add_duration(clean, "--keep-inbox", asked_.clean.rules.inbox,
                 "remember messages from outside this long once they are done (default 30d)");

    verb(root_,
         {"stores", "show how each of many stores is doing",
          "  posthorn stores sqlite:orders.db 'sqlite:tenants/*.db'\n"
          "  posthorn stores --stores tenants.txt --json",
          "a store cannot be reached"},
         asked_.stores, &cli::show_stores);

    verb(root_,
         {"doctor", "look a store over and give advice", "  posthorn doctor sqlite:orders.db",
          "a problem was found (warnings are none), or the store failed"},
         asked_.doctor, &cli::doctor);
}

void verb_tree::declare_enqueue()
{
    group_ = "Messages";
    auto& what = asked_.enqueue;
    auto& how = what.how;
    auto& enqueue = verb(
        root_,
        {"enqueue", "add a message",
         "  posthorn enqueue sqlite:orders.db --topic orders.placed --payload '{\"order\": 7}'\n"
         "  posthorn enqueue sqlite:orders.db --topic mail --key anna --delay 5m - < mail.txt\n"
         "  posthorn enqueue sqlite:orders.db --topic load --payload x --count 100000"},
        what, &cli::enqueue);
    add_parsed(enqueue, "INPUT", what.payload_from_input, &read_dash,
               "- reads the payload from standard input")
        ->type_name("");
    enqueue.add_option("--topic", what.topic, "what the message is about")
        ->required()
        ->type_name("TEXT");
    add_parsed(enqueue, "--payload", what.payload, std::identity{}, "the payload itself")
        ->type_name("TEXT");
    enqueue.add_option("--key", how.ordering_key, "messages of one key run one after the other")
        ->type_name("TEXT");
    enqueue.add_option("--priority", how.priority, "higher runs first, -100 to 100 (default 0)")
        ->type_name("N");
    add_duration(enqueue, "--delay", how.delay, "wait this long, such as 250ms, 5s, 10m, 2h or 7d");
    add_duration(enqueue, "--expires", how.expires_after, "never start later than this from now");
    add_parsed<std::vector<std::string>>(enqueue, "--header", how.headers, &read_headers,
                                         "a header; may be repeated")
        ->allow_extra_args(false)
        ->option_text("NAME=VALUE");
    enqueue.add_option("--correlation", how.correlation_id, "what this message belongs to")
        ->type_name("TEXT");
    enqueue.add_option("--causation", how.causation_id, "what this message follows from")
        ->type_name("TEXT");
    enqueue.add_option("--dedup", how.dedup_key, "add nothing if this key was used before")
        ->type_name("TEXT");
    add_duration(enqueue, "--dedup-window", how.dedup_window,
                 "how long --dedup remembers (default 24h)");
    add_parsed(enqueue, "--id", how.id, &read_id, "the message's id, instead of a new one")
        ->type_name("UUID");
    enqueue.add_option("--count", what.count, "add so many copies (default 1)")
        ->check(CLI::Range(1, 1'000'000'000).description(""))
        ->type_name("N");
}

void verb_tree::declare_message_verbs()
{
    auto& list = verb(root_,
                      {"messages", "list messages, oldest first",
                       "  posthorn messages sqlite:orders.db\n"
                       "  posthorn messages sqlite:orders.db --state ready --topic 'orders.*'\n"
                       "  posthorn messages sqlite:orders.db --limit 1000 --after 1000 --json"},
                      asked_.messages, &cli::messages);
    auto& filter = asked_.messages.filter;
    add_parsed(list, "--state", asked_.messages.state, &read_state, "only in this state")
        ->type_name("STATE");
    add_filter(list, "--key", filter.ordering_key, "only of this ordering key");
    add_page(list, filter);

    auto& show = verb(root_,
                      {"message", "show all that is known of one message",
                       "  posthorn message sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057\n"
                       "  posthorn message sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057 "
                       "--payload",
                       "there is no such message, or the store failed"},
                      asked_.message, &cli::show_message);
    add_id(show, asked_.message);
    show.add_flag("--payload", asked_.message.with_payload, "show the payload, too");

    auto& cancel = verb(root_,
                        {"cancel", "take a message back before it starts",
                         "  posthorn cancel sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057",
                         "too late, no such message, or the store failed"},
                        asked_.cancel, &cli::cancel);
    add_id(cancel, asked_.cancel);
}

void verb_tree::declare_why_and_tail()
{
    auto& why = verb(root_,
                     {"why", "say what a message or a join waits for, or what became of it",
                      "  posthorn why sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057",
                      "there is no such message, or the store failed"},
                     asked_.why, &cli::why);
    add_id(why, asked_.why);

    auto& what = asked_.tail;
    auto& tail = verb(root_,
                      {"tail", "follow messages as they come and change, until Ctrl-C",
                       "  posthorn tail sqlite:orders.db\n"
                       "  posthorn tail sqlite:orders.db --topic 'mail.*' --state dead --json"},
                      what, &cli::tail);
    add_filter(tail, "--topic", what.topic,
               "only this topic; with * at the end, all that start so");
    add_parsed(tail, "--state", what.state, &read_state, "only changes to this state")
        ->type_name("STATE");
    auto* all = tail.add_flag("--all", what.all, "begin with all that are there");
    tail.add_flag("--from-now", what.from_now, "begin with the next one (the default)")
        ->excludes(all);
    tail.add_flag("--payload", what.with_payload, "show the payloads, too");
}

void verb_tree::declare_trace()
{
    auto& what = asked_.trace;
    auto& trace =
        verb(root_,
             {"trace", "show the messages of a correlation, and which caused which",
              "  posthorn trace sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057\n"
              "  posthorn trace sqlite:orders.db order-7 --since 3d --json\n\n"
              "There is no index of correlations, which every enqueue would pay for: each message\n"
              "since the beginning is read, in short steps.",
              "no message belongs to it, or the store failed"},
             what, &cli::trace);
    trace
        .add_option("CORRELATION", what.correlation,
                    "a correlation id, or the id of one of its messages")
        ->required()
        ->type_name("");
    add_duration(trace, "--since", what.since,
                 "begin so long ago (default: what a UUID tells by itself, else 24h)");
    trace.add_option("--limit", what.limit, "at most so many (default 1000)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
}

void verb_tree::declare_work()
{
    group_ = "Handling messages";
    auto& what = asked_.work;
    auto& work =
        verb(root_,
             {"work", "handle messages with commands, until SIGTERM or Ctrl-C",
              "  posthorn work sqlite:orders.db --on mail.welcome -- ./send-mail --quiet\n"
              "  posthorn work sqlite:orders.db --concurrency 4 --timeout 1m --on 'order.*' -- \\\n"
              "      python3 order.py --on mail.welcome -- ./send-mail\n"
              "  posthorn work sqlite:orders.db --until-empty --on '*' -- cat\n"
              "  posthorn work 'sqlite:tenants/*.db' --stores more.txt --on '*' -- ./handle\n\n"
              "A command gets the payload on standard input and the rest in POSTHORN_ID, _TOPIC,\n"
              "_ATTEMPT, _KEY, _CORRELATION_ID, _HEADERS, _HEADER_NAME and, if there are several,\n"
              "_STORE. Its exit code decides:\n"
              "0 done, 75 try again, 65 failed for good, all others try again.",
              "the store failed, or a second signal ended it at once"},
             what, &cli::work);
    work.add_option("--on", patterns_, "a topic, or with * at the end all that start so")
        ->required()
        ->allow_extra_args(false)
        ->option_text("PATTERN -- COMMAND…");
    work.add_option("--concurrency", what.concurrency, "commands at once (default 1)")
        ->check(CLI::Range(1, 1'000).description(""))
        ->type_name("N");
    add_duration(work, "--timeout", what.timeout, "end a command that takes longer");
    add_failures(work, what.failures);
    work.add_flag("--until-empty", what.until_empty, "end when nothing is due any more");
    work.add_option("--limit", what.limit, "end after so many messages")
        ->check(CLI::PositiveNumber.description(""))
        ->type_name("N");
    add_duration(work, "--lease", what.lease,
                 "others take over after so long without a sign (default 30s)");
    add_duration(work, "--grace", what.grace,
                 "commands may go on so long after a signal (default 30s)");
    work.add_option("--name", what.name, "the worker's name (default: host and process id)")
        ->type_name("TEXT");
    add_duration(work, "--refresh", what.refresh,
                 "look for new and gone stores so often (default 1m)");
    work.add_flag("--verbose", what.verbose, "also log each message that is done");
}

void verb_tree::declare_pauses()
{
    const auto add_topic = [](CLI::App& to, pause_request& what) {
        add_filter(to, "--topic", what.topic,
                   "only this topic, or with * at the end all that start so");
    };
    add_topic(verb(root_,
                   {"pause", "keep workers from starting messages",
                    "  posthorn pause sqlite:orders.db\n"
                    "  posthorn pause sqlite:orders.db --topic 'mail.*'"},
                   asked_.pause, &cli::pause),
              asked_.pause);
    add_topic(verb(root_,
                   {"resume", "let workers go on",
                    "  posthorn resume sqlite:orders.db\n"
                    "  posthorn resume sqlite:orders.db --topic 'mail.*'"},
                   asked_.resume, &cli::resume),
              asked_.resume);
}

void verb_tree::declare_joins()
{
    group_ = "Joins";
    auto& joins = *root_.add_subcommand("joins", "look at joins, and end them");
    joins.group(group_);
    joins.require_subcommand(1);
    joins.footer("Example:\n"
                 "  posthorn joins list sqlite:orders.db --state pending\n"
                 "  posthorn joins show sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057\n\n"
                 "`posthorn why` explains a join by its id, too.\n"
                 "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    const auto add_join = [](CLI::App& to, join_id& id) {
        add_parsed(to, "ID", id, &read_join_id, "the join's id")->required()->type_name("");
    };
    auto& list = verb(joins,
                      {"list", "list joins, oldest first",
                       "  posthorn joins list sqlite:orders.db\n"
                       "  posthorn joins list sqlite:orders.db --state failed --group customer-7"},
                      asked_.joins_list, &cli::list_of_joins);
    auto& filter = asked_.joins_list.filter;
    add_parsed(list, "--state", filter.state, &read_join_state, "only in this state")
        ->type_name("STATE");
    add_filter(list, "--group", filter.grouping_key, "only of this grouping key");
    list.add_option("--limit", filter.limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
    list.add_option("--after", filter.after_position, "go on behind this position")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("POSITION");

    constexpr auto no_join = "there is no such join, or the store failed";
    auto& show = verb(
        joins,
        {"show", "show a join, how far it is, and its members",
         "  posthorn joins show sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057", no_join},
        asked_.joins_show, &cli::show_join);
    add_join(show, asked_.joins_show.id);
    show.add_option("--members", asked_.joins_show.members, "show so many members (default 20)")
        ->check(CLI::Range(0, 1'000'000).description(""))
        ->type_name("N");

    auto& cancel = verb(joins,
                        {"cancel", "end a join without a continuation",
                         "  posthorn joins cancel sqlite:orders.db "
                         "01890a5d-ac96-774b-bcce-b302099a8057 --members",
                         "the join has ended, there is none, or the store failed"},
                        asked_.joins_cancel, &cli::cancel_one_join);
    add_join(cancel, asked_.joins_cancel.id);
    cancel.add_flag("--members", asked_.joins_cancel.with_members,
                    "also cancel its members that have not started");

    auto& redrive =
        verb(joins,
             {"redrive", "redrive the dead members of a failed join, which waits for them again",
              "  posthorn joins redrive sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057",
              "nothing to redrive, no such join, or the store failed"},
             asked_.joins_redrive, &cli::redrive_one_join);
    add_join(redrive, asked_.joins_redrive.id);
}

void verb_tree::declare_leases()
{
    group_ = "Leases";
    auto& leases = *root_.add_subcommand("leases", "see who holds what, and free it");
    leases.group(group_);
    leases.require_subcommand(1);
    leases.footer("Example:\n"
                  "  posthorn leases list sqlite:orders.db --held\n"
                  "  posthorn leases release sqlite:orders.db reindex --fence 7\n\n"
                  "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    auto& list = verb(leases,
                      {"list", "list leases by their names",
                       "  posthorn leases list sqlite:orders.db\n"
                       "  posthorn leases list sqlite:orders.db --held --limit 10"},
                      asked_.leases_list, &cli::list_of_leases);
    auto& filter = asked_.leases_list.filter;
    list.add_flag("--held", filter.held, "only those that somebody has");
    list.add_option("--limit", filter.limit, "at most so many (default 100)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
    list.add_option("--after", filter.after, "go on behind this name")->type_name("NAME");

    auto& release = verb(leases,
                         {"release", "take a lease from whoever has it",
                          "  posthorn leases release sqlite:orders.db reindex\n"
                          "  posthorn leases release sqlite:orders.db reindex --fence 7",
                          "nobody has the lease, or the store failed"},
                         asked_.leases_release, &cli::release_lease);
    release.add_option("NAME", asked_.leases_release.name, "the lease's name")
        ->required()
        ->type_name("");
    release
        .add_option("--fence", asked_.leases_release.fence, "only from the holder with this fence")
        ->check(CLI::PositiveNumber.description(""))
        ->type_name("N");
}

void verb_tree::declare_demo()
{
    group_ = "A first look";
    auto& demo = verb(root_,
                      {"demo", "watch a small shop at work, on a store of its own",
                       "  posthorn demo\n"
                       "  posthorn demo sqlite:demo.db --seconds 10",
                       "the store failed", false},
                      asked_.demo, &cli::demo);
    demo.add_option("--seconds", asked_.demo.seconds, "end after so long (default: at Ctrl-C)")
        ->check(CLI::PositiveNumber.description(""))
        ->type_name("N");
}

void verb_tree::declare_dead_verbs()
{
    group_ = "What failed for good";
    auto& dead = *root_.add_subcommand("dead", "set right what failed for good");
    dead.group(group_);
    dead.require_subcommand(1);
    dead.footer("Example:\n"
                "  posthorn dead list sqlite:orders.db\n"
                "  posthorn dead redrive sqlite:orders.db --error timeout --rate 50\n\n"
                "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    group_ = "Dead messages";
    auto& list = verb(dead,
                      {"list", "list dead messages, oldest first",
                       "  posthorn dead list sqlite:orders.db\n"
                       "  posthorn dead list sqlite:orders.db --topic 'mail.*' --error timeout"},
                      asked_.dead_list, &cli::list_dead);
    add_filter(list, "--error", asked_.dead_list.filter.error_contains,
               "only those whose last error contains this");
    add_page(list, asked_.dead_list.filter);

    auto& show = verb(dead,
                      {"show", "show all that is known of one dead message",
                       "  posthorn dead show sqlite:orders.db 01890a5d-ac96-774b-bcce-b302099a8057",
                       "no dead message has this id, or the store failed"},
                      asked_.dead_show, &cli::show_dead);
    add_id(show, asked_.dead_show);
    show.add_flag("--payload", asked_.dead_show.with_payload, "show the payload, too");

    auto& redrive_what = asked_.dead_redrive;
    auto& redrive = verb(dead,
                         {"redrive", "give dead messages new attempts",
                          "  posthorn dead redrive sqlite:orders.db --topic mail --dry-run\n"
                          "  posthorn dead redrive sqlite:orders.db --error timeout --rate 50",
                          "no dead message has this id, or the store failed"},
                         redrive_what, &cli::redrive_dead);
    add_selection(redrive, redrive_what.which, redrive_what.dry_run);
    redrive
        .add_option("--rate", redrive_what.per_second, "spread them over time, so many per second")
        ->check(CLI::PositiveNumber.description(""))
        ->type_name("N");

    auto& purge_what = asked_.dead_purge;
    auto& purge = verb(dead,
                       {"purge", "remove dead messages for good",
                        "  posthorn dead purge sqlite:orders.db --all --dry-run\n"
                        "  posthorn dead purge sqlite:orders.db --topic 'test.*'",
                        "no dead message has this id, or the store failed"},
                       purge_what, &cli::purge_dead);
    add_selection(purge, purge_what.which, purge_what.dry_run);
    declare_key_verbs(dead);
}

void verb_tree::declare_key_verbs(CLI::App& dead)
{
    group_ = "Ordering keys that a dead message holds back";
    constexpr auto failure = "the key is not blocked, or the store failed";
    auto& keys = verb(dead, {"keys", "list blocked keys", "  posthorn dead keys sqlite:orders.db"},
                      asked_.dead_keys, &cli::list_keys);
    keys.add_option("--limit", asked_.dead_keys.limit, "at most so many (default 100)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");

    const auto key_verb = [&](const verb_text& text, key_request& what, auto run) {
        verb(dead, text, what, run)
            .add_option("KEY", what.ordering_key, "the ordering key")
            ->required()
            ->type_name("");
    };
    key_verb({"retry-key", "redrive the message that blocks a key",
              "  posthorn dead retry-key sqlite:orders.db customer-7", failure},
             asked_.dead_retry_key, &cli::retry_key);
    key_verb({"skip-key", "let a key go on without its dead message",
              "  posthorn dead skip-key sqlite:orders.db customer-7", failure},
             asked_.dead_skip_key, &cli::skip_key);
}

} // namespace posthorn::cli
