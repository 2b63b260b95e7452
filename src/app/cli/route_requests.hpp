// What the verbs are asked that connect a store with other systems.
#pragma once

#include "app/cli/output.hpp"
#include "app/cli/store_list.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/time.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::cli {

/// Keys of a transport, as a configuration has them.
using route_settings = std::vector<std::pair<std::string, std::string>>;

/// `name=value`, each name once. Throws: `error` with `invalid_argument`.
[[nodiscard]] route_settings read_settings(const std::vector<std::string>& pairs);

struct relay_request {
    store_selection which;
    std::vector<std::string> patterns;
    std::string to;
    std::string destination;
    std::string key;
    route_settings settings;
    failure_settings failures = {};
    bool dead_if_unroutable = false;
    std::size_t in_flight = 500;
    duration grace = std::chrono::seconds{30};
    bool until_empty = false;
};

exit_status relay(const relay_request& what, output& to);

struct feed_request : store_request {
    std::string from;
    std::string source;
    std::string topic;
    bool topic_wins = false;
    route_settings settings;
    std::size_t limit = SIZE_MAX; ///< end after so many that were stored or known
};

exit_status feed(const feed_request& what, output& to);

} // namespace posthorn::cli
