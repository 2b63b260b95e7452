// Kafka: kafka:.
#include "app/transports/readers.hpp"
#include <posthorn/kafka.hpp>

#include <array>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

kafka_access read_kafka_access(section& from)
{
    static const std::array<std::string, 3> mechanisms{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"};
    kafka_access result;
    take(result.user, from.text("user"));
    take(result.password, from.hidden("password"));
    take(result.mechanism, from.one_of("mechanism", mechanisms));
    take(result.tls, from.flag("tls"));
    take(result.ca_file, from.text("ca_file"));
    take(result.certificate_file, from.text("certificate_file"));
    take(result.private_key_file, from.text("key_file"));
    take(result.private_key_password, from.hidden("key_password"));
    take(result.verify, from.flag("verify"));
    return result;
}

kafka_settings read_kafka_settings(section& from)
{
    kafka_settings result;
    for (auto& [name, text] : from.pairs("settings"))
        result.emplace(name, text);
    return result;
}

} // namespace

transport_opener kafka_transport(section& from, const secret_url& url)
{
    kafka_options options{.url = url.reveal()};
    options.access = read_kafka_access(from);
    take(options.topic, from.text("topic"));
    take(options.source, from.text("source"));
    take_size(options.payload_bytes_max, from, "payload_bytes_max", 1'000'000'000);
    take(options.linger, from.time("linger"));
    options.settings = read_kafka_settings(from);
    return [options](const environment& world) { return open_kafka(options, world); };
}

feed_opener kafka_feed(section& from, const secret_url& url)
{
    kafka_feed_options options{.url = url.reveal(), .topics = {}, .group = {}};
    options.access = read_kafka_access(from);
    from.require("topics", "the topics to read");
    from.require("group", "the consumer group: those of one group share the partitions");
    options.topics = from.texts("topics");
    take(options.group, from.text("group"));
    static const std::array<std::string, 2> starts{"earliest", "latest"};
    if (from.one_of("start", starts) == "latest")
        options.start = kafka_feed_options::start_at::latest;
    take(options.refused_suffix, from.text("refused_suffix"));
    options.settings = read_kafka_settings(from);
    return [options](const environment& world) { return open_kafka_feed(options, world); };
}

} // namespace posthorn::daemon
