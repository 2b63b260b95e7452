// Transports by the scheme of their URL.
#include "app/transports.hpp"

#include "app/cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace posthorn::daemon {
namespace {

struct catalogue_entry {
    std::string_view scheme;
    transport_opener (*transport)(section& from, const secret_url& url);
    feed_opener (*feed)(section& from, const secret_url& url);
};

// All that there can be; what this build lacks has no functions.
std::span<const catalogue_entry> catalogue()
{
    static constexpr catalogue_entry entries[] = {
        {"amqp", nullptr, nullptr},  {"amqps", nullptr, nullptr}, {"nats", nullptr, nullptr},
        {"tls", nullptr, nullptr},   {"redis", nullptr, nullptr}, {"rediss", nullptr, nullptr},
        {"kafka", nullptr, nullptr}, {"http", nullptr, nullptr},  {"https", nullptr, nullptr},
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
    return entry->transport(from, url);
}

feed_opener read_feed(section& from, std::string_view url_key, const secret_url& url)
{
    const auto* entry = entry_for(from, url_key, url);
    if (entry == nullptr)
        return {};
    if (entry->feed == nullptr) {
        from.refuse(url_key, entry->transport == nullptr
                                 ? fmt::format("this build has no transport for {}:", entry->scheme)
                                 : fmt::format("nothing can be fed from {}:", entry->scheme));
        return {};
    }
    return entry->feed(from, url);
}

} // namespace posthorn::daemon
