// The catalogue of transports: which URLs this program can send to and receive from, and which keys
// of a configuration each of them takes.
#pragma once

#include "app/daemon/secret.hpp"
#include "app/daemon/section.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/transport.hpp>

#include <functional>
#include <memory>
#include <string>

namespace posthorn::daemon {

/// Told which of a transport's endpoints begin and cease to be left alone for their failures, if it
/// has several.
using endpoint_listener = std::function<void(const std::string& endpoint, bool is_left)>;

/// Opens what was described. Throws: `error` with `invalid_argument` for options that make no
/// sense.
using transport_opener = std::function<std::shared_ptr<transport>(
    const environment&, const endpoint_listener& on_endpoint)>;
using feed_opener = std::function<std::unique_ptr<feed>(const environment&)>;

/// Reads the keys that belong to the scheme of a URL, which stands under `url_key`. What is wrong
/// is noted; empty if nothing can be opened.
[[nodiscard]] transport_opener read_transport(section& from, std::string_view url_key,
                                              const secret_url& url);
[[nodiscard]] feed_opener read_feed(section& from, std::string_view url_key, const secret_url& url);

} // namespace posthorn::daemon
