// Kafka: kafka:.
#include "app/transports/readers.hpp"
#include <posthorn/kafka.hpp>

#include <algorithm>
#include <array>
#include <string_view>

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
    take(result.ca_file, from.file("ca_file"));
    take(result.certificate_file, from.file("certificate_file"));
    take(result.private_key_file, from.file("key_file"));
    take(result.private_key_password, from.hidden("key_password"));
    take(result.verify, from.flag("verify"));
    return result;
}

constexpr const char* any_broker = "kafka://localhost";

// librdkafka has hundreds of settings. Most values are words such as "true", and would be missed.
bool is_secret_setting(std::string_view name)
{
    constexpr std::array<std::string_view, 7> telling{"pass", "secret", "token",     "pem",
                                                      "key",  "jaas",   "credential"};
    return std::ranges::any_of(
        telling, [&](std::string_view each) { return name.find(each) != std::string_view::npos; });
}

kafka_settings read_kafka_settings(section& from)
{
    kafka_settings result;
    for (const auto& [name, text] : from.hidden_pairs("settings", &is_secret_setting))
        result.emplace(name, text.reveal());
    return result;
}

} // namespace

transport_opener kafka_transport(section& from, std::string_view url_key, const secret_url& url)
{
    kafka_options options{.url = url.reveal()};
    options.access = read_kafka_access(from);
    take(options.topic, from.text("topic"));
    from.check("topic", [&] { check_kafka({.url = any_broker, .topic = options.topic}); });
    take_source(options.source, from);
    take_size(options.payload_bytes_max, from, "payload_bytes_max", 1'000'000'000);
    take(options.linger, from.time("linger"));
    options.settings = read_kafka_settings(from);
    from.check("settings", [&] { check_kafka({.url = any_broker, .settings = options.settings}); });
    check_all(from, url_key, options, &check_kafka);
    return [options](const environment& world, const endpoint_listener&) {
        return open_kafka(options, world);
    };
}

feed_opener kafka_feed(section& from, std::string_view url_key, const secret_url& url)
{
    kafka_feed_options options{.url = url.reveal(), .topics = {}, .group = {}};
    options.access = read_kafka_access(from);
    from.require("topics", "the topics to read");
    options.topics = from.texts("topics");
    if (from.is_empty_list("topics"))
        from.refuse("topics", "should name at least one");
    options.group =
        from.required_text("group", "the consumer group: those of one group share the partitions");
    static const std::array<std::string, 2> starts{"earliest", "latest"};
    if (from.one_of("start", starts) == "latest")
        options.start = kafka_feed_options::start_at::latest;
    take(options.refused_suffix, from.text("refused_suffix"));
    options.settings = read_kafka_settings(from);
    from.check("settings", [&] {
        check_kafka_feed(
            {.url = any_broker, .topics = {"any"}, .group = "any", .settings = options.settings});
    });
    check_all(from, url_key, options, &check_kafka_feed);
    return [options](const environment& world) { return open_kafka_feed(options, world); };
}

} // namespace posthorn::daemon
