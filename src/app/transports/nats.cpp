// NATS JetStream: nats: and tls:.
#include "app/transports/readers.hpp"
#include <posthorn/nats.hpp>

#include <optional>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

constexpr const char* any_server = "nats://localhost";

nats_access read_nats_access(section& from)
{
    nats_access result;
    take(result.user, from.text("user"));
    take(result.password, from.hidden("password"));
    take(result.token, from.hidden("token"));
    take(result.credentials_file, from.file("credentials_file"));
    take(result.tls, from.flag("tls"));
    take(result.ca_file, from.file("ca_file"));
    take(result.certificate_file, from.file("certificate_file"));
    take(result.key_file, from.file("key_file"));
    take(result.verify_server, from.flag("verify"));
    return result;
}

// The keys of the stream mean nothing without `declare`.
std::optional<nats_declaration> read_declaration(section& from)
{
    const bool declares = from.flag("declare").value_or(false);
    nats_declaration result;
    take(result.stream, from.text("stream"));
    result.subjects = from.texts("subjects");
    if (const auto replicas = from.whole("replicas", 1, 5))
        result.replicas = static_cast<int>(*replicas);
    for (const auto* const each : {"stream", "subjects", "replicas"})
        if (!declares && from.has(each))
            from.refuse(each, "says what is declared, and needs declare = true");
    if (!declares)
        return std::nullopt;
    from.require("stream", "the name of the stream that is declared");
    from.require("subjects", "what the stream takes, such as [\"orders.>\"]");
    if (from.is_clean())
        from.check("declare", [&] { check_nats({.url = any_server, .declare = result}); });
    return result;
}

} // namespace

transport_opener nats_transport(section& from, std::string_view url_key, const secret_url& url)
{
    nats_options options{.url = url.reveal()};
    options.access = read_nats_access(from);
    take(options.prefix, from.text("prefix"));
    from.check("prefix", [&] { check_nats({.url = any_server, .prefix = options.prefix}); });
    take(options.domain, from.text("domain"));
    from.check("domain", [&] { check_nats({.url = any_server, .domain = options.domain}); });
    options.declare = read_declaration(from);
    if (const auto most = from.whole("payload_bytes_max", 1, 1'000'000'000))
        options.payload_bytes_max = static_cast<std::size_t>(*most);
    take_size(options.window, from, "window", 100'000);
    take(options.ack_within, from.time("ack_within", 1ms));
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.ping_every, from.time("ping_every", 1ms));
    take(options.client_name, from.text("client_name"));
    take_source(options.source, from);
    check_all(from, url_key, options, &check_nats);
    return [options](const environment& world, const endpoint_listener&) {
        return open_nats(options, world);
    };
}

feed_opener nats_feed(section& from, std::string_view url_key, const secret_url& url)
{
    nats_feed_options options{.url = url.reveal(), .stream = {}, .consumer = {}};
    options.access = read_nats_access(from);
    options.stream = from.required_text("stream", "the stream to read");
    options.consumer = from.required_text(
        "consumer", "its durable consumer: those of one name share its messages");
    take(options.create_consumer, from.flag("create_consumer"));
    take(options.filter, from.text("filter"));
    take(options.ack_wait, from.time("ack_wait", 1ms));
    take(options.domain, from.text("domain"));
    take(options.in_order, from.flag("in_order"));
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.ping_every, from.time("ping_every", 1ms));
    take(options.client_name, from.text("client_name"));
    check_all(from, url_key, options, &check_nats_feed);
    return [options](const environment& world) { return open_nats_feed(options, world); };
}

} // namespace posthorn::daemon
