// The verbs of the daemon.
#include "app/cli/verb_tree.hpp"

namespace posthorn::cli {
namespace {

void add_settings(CLI::App& verb, route_settings& into)
{
    add_parsed<std::vector<std::string>>(
        verb, "--set", into, &read_settings,
        "a key of the transport, as a configuration has it, and TABLE.KEY=VALUE for one of a "
        "table; may be repeated")
        ->allow_extra_args(false)
        ->option_text("NAME=VALUE");
}

} // namespace

void verb_tree::declare_serve()
{
    auto& what = asked_.serve;
    auto& serve =
        verb(root_,
             {"serve", "run as a daemon, as one file says, until SIGTERM or Ctrl-C",
              "  posthorn serve --config posthorn.toml\n"
              "  posthorn serve --config posthorn.toml --check\n"
              "  posthorn serve --config posthorn.toml --check --connect --json\n\n"
              "A small posthorn.toml:\n"
              "  [[stores]]\n"
              "  url = \"sqlite:orders.db\"\n"
              "  [[handlers]]\n"
              "  on = \"orders.*\"\n"
              "  command = [\"./handle-order\"]\n\n"
              "SIGTERM ends it gently, a second one at once; SIGHUP reads the file again.\n"
              "docs/guides/daemon.md has all that a file can say.",
              "something cannot be reached (--connect), nobody can listen at the address,\n"
              "     or a second signal ended it at once"},
             what, &cli::serve);
    serve.add_option("--config", what.config, "the file")->required()->type_name("FILE");
    auto* check = serve.add_flag("--check", what.check, "only look at the file, and open nothing");
    serve.add_flag("--connect", what.connect, "with --check: also open what it names")
        ->needs(check);
}

void verb_tree::declare_relay()
{
    auto& what = asked_.relay;
    auto& relay = verb(
        root_,
        {"relay", "send messages on to another system, until SIGTERM or Ctrl-C",
         "  posthorn relay sqlite:orders.db --on 'orders.*' --to amqp://user@broker/shop \\\n"
         "      --destination 'orders/{topic}' --set persistent=true\n"
         "  posthorn relay sqlite:orders.db --on '*' --to nats://broker --until-empty\n"
         "  posthorn relay 'sqlite:tenants/*.db' --on 'mail.*' --to https://example.com/hooks \\\n"
         "      --key '{store}'\n\n"
         "A template may hold {topic}, {topic.N}, {key}, {id}, {store} and {header.NAME}.\n"
         "A message is done when the other side has accepted it; while that is away, messages\n"
         "wait, and lose no attempt.",
         "the store failed, or a second signal ended it at once"},
        what, &cli::relay);
    relay.add_option("--on", what.patterns, "a topic, or with * at the end all that start so")
        ->required()
        ->allow_extra_args(false)
        ->option_text("PATTERN");
    relay.add_option("--to", what.to, "where to: amqp:, nats:, redis:, kafka: or https:")
        ->required()
        ->option_text("URL");
    relay
        .add_option("--destination", what.destination,
                    "exchange, subject, stream, topic or URL (default: as the transport has it)")
        ->type_name("TEMPLATE");
    relay.add_option("--key", what.key, "the key over there (default: the ordering key)")
        ->type_name("TEMPLATE");
    add_settings(relay, what.settings);
    relay.add_flag("--dead-if-unroutable", what.dead_if_unroutable,
                   "do not try again what no queue or stream would get");
    add_failures(relay, what.failures);
    relay.add_option("--in-flight", what.in_flight, "messages on their way at once (default 500)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
    add_duration(relay, "--grace", what.grace,
                 "wait so long for answers after a signal (default 30s)");
    relay.add_flag("--until-empty", what.until_empty, "end when nothing is due any more");
}

void verb_tree::declare_feed()
{
    auto& what = asked_.feed;
    auto& feed =
        verb(root_,
             {"feed", "store what another system sends in the inbox, until SIGTERM or Ctrl-C",
              "  posthorn feed sqlite:orders.db --from amqp://user@broker --set queue=orders \\\n"
              "      --source shop --topic orders.placed\n"
              "  posthorn feed sqlite:orders.db --from nats://broker --set stream=ORDERS \\\n"
              "      --set consumer=billing --source shop\n\n"
              "What comes again is known, and has one effect. Workers meet the messages under the\n"
              "topic inbox:TOPIC."},
             what, &cli::feed);
    feed.add_option("--from", what.from, "where from: amqp:, nats:, redis: or kafka:")
        ->required()
        ->option_text("URL");
    feed.add_option("--source", what.source, "the inbox's name for whoever sends")
        ->required()
        ->type_name("TEXT");
    auto* topic = feed.add_option("--topic", what.topic, "for messages that do not say their own")
                      ->type_name("TEXT");
    feed.add_flag("--topic-wins", what.topic_wins, "and for all others, too")->needs(topic);
    add_settings(feed, what.settings);
    feed.add_option("--limit", what.limit, "end after about so many messages")
        ->check(CLI::PositiveNumber.description(""))
        ->type_name("N");
}

} // namespace posthorn::cli
