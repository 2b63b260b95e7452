// RabbitMQ: amqp: and amqps:.
#include "app/transports/readers.hpp"
#include <posthorn/rabbitmq.hpp>

#include <array>
#include <optional>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

rabbitmq_connection read_rabbitmq_connection(section& from)
{
    rabbitmq_connection result;
    take(result.tls.ca_file, from.file("ca_file"));
    take(result.tls.certificate, from.file("certificate_file"));
    take(result.tls.key, from.file("key_file"));
    take(result.tls.verify, from.flag("verify"));
    take(result.name, from.text("client_name"));
    take(result.connect_within, from.time("connect_within", 1ms));
    if (const auto beat = from.time("heartbeat", 0s, 1h))
        result.heartbeat = std::chrono::duration_cast<std::chrono::seconds>(*beat);
    return result;
}

// The keys of what is declared mean nothing without `declare`.
std::optional<rabbitmq_declaration> read_declaration(section& from, const std::string& exchange)
{
    static const std::array<std::string, 4> types{"topic", "direct", "fanout", "headers"};
    const bool declares = from.flag("declare").value_or(false);
    rabbitmq_declaration result;
    take(result.exchange_type, from.one_of("exchange_type", types));
    take(result.queue, from.text("queue"));
    take(result.binding, from.text("binding"));
    take(result.quorum, from.flag("quorum"));
    if (declares && exchange.empty() && result.queue.empty())
        from.refuse("declare", "needs an exchange or a queue that can be declared");
    for (const auto* const each : {"exchange_type", "queue", "binding", "quorum"})
        if (!declares && from.has(each))
            from.refuse(each, "says what is declared, and needs declare = true");
    for (const auto* const each : {"binding", "quorum"})
        if (declares && from.has(each) && result.queue.empty())
            from.refuse(each, "belongs to a queue, and none is named");
    return declares ? std::optional(std::move(result)) : std::nullopt;
}

} // namespace

transport_opener rabbitmq_transport(section& from, std::string_view url_key, const secret_url& url)
{
    rabbitmq_options options{.url = url.reveal()};
    take(options.exchange, from.text("exchange"));
    take(options.routing_key, from.text("routing_key"));
    options.declare = read_declaration(from, options.exchange);
    take(options.mandatory, from.flag("mandatory"));
    take(options.persistent, from.flag("persistent"));
    take_size(options.window, from, "window", 100'000);
    take_size(options.payload_bytes_max, from, "payload_bytes_max", 1'000'000'000);
    take(options.answer_within, from.time("answer_within", 1ms));
    take_source(options.source, from);
    options.connection = read_rabbitmq_connection(from);
    check_all(from, url_key, options, &check_rabbitmq);
    return [options](const environment& world, const endpoint_listener&) {
        return open_rabbitmq(options, world);
    };
}

feed_opener rabbitmq_feed(section& from, std::string_view url_key, const secret_url& url)
{
    rabbitmq_feed_options options{.url = url.reveal(), .queue = {}};
    options.queue = from.required_text("queue", "the queue to read");
    take(options.declare, from.flag("declare"));
    take(options.quorum, from.flag("quorum"));
    take(options.dead_letter_exchange, from.text("dead_letter_exchange"));
    take(options.refused_pause, from.time("refused_pause", 1ms));
    take_size(options.prefetch, from, "prefetch", 65'535);
    take(options.accept_without_id, from.flag("accept_without_id"));
    options.connection = read_rabbitmq_connection(from);
    check_all(from, url_key, options, &check_rabbitmq_feed);
    return [options](const environment& world) { return open_rabbitmq_feed(options, world); };
}

} // namespace posthorn::daemon
