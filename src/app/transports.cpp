// Transports by the scheme of their URL.
#include "app/transports.hpp"

#include "app/cli/text.hpp"
#include "app/transports/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace posthorn::daemon {
namespace {

struct catalogue_entry {
    std::string_view scheme;
    transport_opener (*transport)(section& from, std::string_view url_key, const secret_url& url);
    feed_opener (*feed)(section& from, std::string_view url_key, const secret_url& url);
};

// All that there can be. What this build lacks has no functions: CMake says what there is.
#ifdef POSTHORN_HAS_RABBITMQ
constexpr auto rabbitmq_out = &rabbitmq_transport;
constexpr auto rabbitmq_in = &rabbitmq_feed;
#else
constexpr auto rabbitmq_out = nullptr;
constexpr auto rabbitmq_in = nullptr;
#endif
#ifdef POSTHORN_HAS_NATS
constexpr auto nats_out = &nats_transport;
constexpr auto nats_in = &nats_feed;
#else
constexpr auto nats_out = nullptr;
constexpr auto nats_in = nullptr;
#endif
#ifdef POSTHORN_HAS_REDIS
constexpr auto redis_out = &redis_transport;
constexpr auto redis_in = &redis_feed;
#else
constexpr auto redis_out = nullptr;
constexpr auto redis_in = nullptr;
#endif
#ifdef POSTHORN_HAS_KAFKA
constexpr auto kafka_out = &kafka_transport;
constexpr auto kafka_in = &kafka_feed;
#else
constexpr auto kafka_out = nullptr;
constexpr auto kafka_in = nullptr;
#endif
#ifdef POSTHORN_HAS_WEBHOOK
constexpr auto webhook_out = &webhook_transport;
#else
constexpr auto webhook_out = nullptr;
#endif

std::span<const catalogue_entry> catalogue()
{
    static constexpr catalogue_entry entries[] = {
        {"amqp", rabbitmq_out, rabbitmq_in}, {"amqps", rabbitmq_out, rabbitmq_in},
        {"nats", nats_out, nats_in},         {"tls", nats_out, nats_in},
        {"redis", redis_out, redis_in},      {"kafka", kafka_out, kafka_in},
        {"http", webhook_out, nullptr},      {"https", webhook_out, nullptr},
    };
    return entries;
}

const catalogue_entry* entry_for(section& from, std::string_view url_key, const secret_url& url)
{
    const auto all = catalogue();
    const auto scheme = url.scheme();
    const auto found = std::ranges::find(all, scheme, &catalogue_entry::scheme);
    if (found != all.end())
        return &*found;
    if (scheme == "rediss") {
        from.refuse(url_key, "Redis is not spoken with TLS here; write redis: to a proxy on this "
                             "machine that does, such as stunnel");
        return nullptr;
    }
    std::vector<std::string> names;
    for (const auto& each : all)
        names.emplace_back(each.scheme);
    const auto meant = cli::nearest(scheme, names);
    from.refuse(url_key,
                fmt::format("is no URL of a transport: those begin with {}{}",
                            fmt::join(names, ":, "),
                            meant.empty() ? ":" : fmt::format(":; did you mean {}:?", meant)));
    return nullptr;
}

} // namespace

transport_opener read_transport(section& from, std::string_view url_key, const secret_url& url)
{
    const auto* entry = entry_for(from, url_key, url);
    if (entry == nullptr)
        return {};
    if (entry->transport == nullptr) {
        from.refuse(url_key, fmt::format("this build has no transport for {}:", entry->scheme));
        return {};
    }
    return entry->transport(from, url_key, url);
}

feed_opener read_feed(section& from, std::string_view url_key, const secret_url& url)
{
    const auto* entry = entry_for(from, url_key, url);
    if (entry == nullptr)
        return {};
    if (entry->feed == nullptr) {
        from.refuse(
            url_key,
            entry->transport == nullptr
                ? fmt::format("this build has no transport for {}:", entry->scheme)
                : fmt::format("nothing can be fed from {}:; for webhooks there are [[endpoints]]",
                              entry->scheme));
        return {};
    }
    return entry->feed(from, url_key, url);
}

} // namespace posthorn::daemon
