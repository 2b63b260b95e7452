// How each transport reads its keys: one file for each, all of the same form. What they cannot be
// is found out here, without opening anything: a key by itself where that can be said, and then all
// of them together, which is mostly about the URL.
#pragma once

#include "app/transports.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace posthorn::daemon {

[[nodiscard]] transport_opener rabbitmq_transport(section& from, std::string_view url_key,
                                                  const secret_url& url);
[[nodiscard]] feed_opener rabbitmq_feed(section& from, std::string_view url_key,
                                        const secret_url& url);
[[nodiscard]] transport_opener nats_transport(section& from, std::string_view url_key,
                                              const secret_url& url);
[[nodiscard]] feed_opener nats_feed(section& from, std::string_view url_key, const secret_url& url);
[[nodiscard]] transport_opener redis_transport(section& from, std::string_view url_key,
                                               const secret_url& url);
[[nodiscard]] feed_opener redis_feed(section& from, std::string_view url_key,
                                     const secret_url& url);
[[nodiscard]] transport_opener kafka_transport(section& from, std::string_view url_key,
                                               const secret_url& url);
[[nodiscard]] feed_opener kafka_feed(section& from, std::string_view url_key,
                                     const secret_url& url);
[[nodiscard]] transport_opener webhook_transport(section& from, std::string_view url_key,
                                                 const secret_url& url);

/// Replaces what holds anyway by what the file says.
template <typename Type>
void take(Type& into, std::optional<Type> said)
{
    if (said)
        into = *std::move(said);
}

inline void take(std::string& into, const std::optional<secret>& said)
{
    if (said)
        into = said->reveal();
}

template <typename Options>
void check_all(section& from, std::string_view url_key, const Options& options,
               void (*check)(const Options&))
{
    if (from.is_clean())
        from.check(url_key, [&] { check(options); });
}

inline void take_source(std::string& into, section& from)
{
    take(into, from.text("source"));
    if (into.empty())
        from.refuse("source", "is empty: who says it, such as 'shop'");
}

inline void take_size(std::size_t& into, section& from, std::string_view name, std::int64_t most)
{
    if (const auto said = from.whole(name, 1, most))
        into = static_cast<std::size_t>(*said);
}

} // namespace posthorn::daemon
