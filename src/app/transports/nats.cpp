// NATS JetStream: nats: and tls:.
#include "app/transports/readers.hpp"
#include <posthorn/nats.hpp>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

nats_access read_nats_access(section& from)
{
    nats_access result;
    take(result.user, from.text("user"));
    take(result.password, from.hidden("password"));
    take(result.token, from.hidden("token"));
    take(result.credentials_file, from.text("credentials_file"));
    take(result.tls, from.flag("tls"));
    take(result.ca_file, from.text("ca_file"));
    take(result.certificate_file, from.text("certificate_file"));
    take(result.key_file, from.text("key_file"));
    take(result.verify_server, from.flag("verify"));
    return result;
}

} // namespace

transport_opener nats_transport(section& from, const secret_url& url)
{
    nats_options options{.url = url.reveal()};
    options.access = read_nats_access(from);
    take(options.prefix, from.text("prefix"));
    take(options.domain, from.text("domain"));
    if (const auto most = from.whole("payload_bytes_max", 1, 1'000'000'000))
        options.payload_bytes_max = static_cast<std::size_t>(*most);
    take_size(options.window, from, "window", 100'000);
    take(options.ack_within, from.time("ack_within", 1ms));
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.ping_every, from.time("ping_every", 1ms));
    take(options.client_name, from.text("client_name"));
    take(options.source, from.text("source"));
    return [options](const environment& world) { return open_nats(options, world); };
}

feed_opener nats_feed(section& from, const secret_url& url)
{
    nats_feed_options options{.url = url.reveal(), .stream = {}, .consumer = {}};
    options.access = read_nats_access(from);
    from.require("stream", "the stream to read");
    from.require("consumer", "its durable consumer: those of one name share its messages");
    take(options.stream, from.text("stream"));
    take(options.consumer, from.text("consumer"));
    take(options.create_consumer, from.flag("create_consumer"));
    take(options.filter, from.text("filter"));
    take(options.ack_wait, from.time("ack_wait", 1ms));
    take(options.domain, from.text("domain"));
    take(options.in_order, from.flag("in_order"));
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.ping_every, from.time("ping_every", 1ms));
    take(options.client_name, from.text("client_name"));
    return [options](const environment& world) { return open_nats_feed(options, world); };
}

} // namespace posthorn::daemon
