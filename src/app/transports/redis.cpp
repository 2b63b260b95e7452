// Redis Streams: redis:.
#include "app/transports/readers.hpp"
#include <posthorn/redis.hpp>

#include <cstdint>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

} // namespace

transport_opener redis_transport(section& from, std::string_view url_key, const secret_url& url)
{
    redis_options options{.url = url.reveal()};
    take(options.prefix, from.text("prefix"));
    take(options.create_streams, from.flag("create_streams"));
    if (const auto most = from.whole("entries_max", 1, 1'000'000'000'000))
        options.entries_max = static_cast<std::uint64_t>(*most);
    if (const auto replicas = from.whole("replicas", 0, 100))
        options.replicas = static_cast<unsigned>(*replicas);
    take(options.replicas_within, from.time("replicas_within", 1ms));
    take_size(options.payload_bytes_max, from, "payload_bytes_max", 500'000'000);
    take_size(options.window, from, "window", 100'000);
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.reply_within, from.time("reply_within", 1ms));
    take(options.client_name, from.text("client_name"));
    check_all(from, url_key, options, &check_redis);
    return [options](const environment& world, const endpoint_listener&) {
        return open_redis(options, world);
    };
}

feed_opener redis_feed(section& from, std::string_view url_key, const secret_url& url)
{
    redis_feed_options options{.url = url.reveal(), .stream = {}, .group = {}};
    options.stream = from.required_text("stream", "the stream to read");
    options.group =
        from.required_text("group", "the consumer group: those of one group share its entries");
    take(options.consumer, from.text("consumer"));
    take(options.create_group, from.flag("create_group"));
    take(options.start, from.text("start"));
    take(options.claim_after, from.time("claim_after", 1ms));
    take(options.refused_stream, from.text("refused_stream"));
    take(options.payload_field, from.text("payload_field"));
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.reply_within, from.time("reply_within", 1ms));
    take(options.client_name, from.text("client_name"));
    check_all(from, url_key, options, &check_redis_feed);
    return [options](const environment& world) { return open_redis_feed(options, world); };
}

} // namespace posthorn::daemon
