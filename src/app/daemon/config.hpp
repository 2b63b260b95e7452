// What a daemon is told to do: the configuration file as plain values.
#pragma once

#include "app/daemon/document.hpp"
#include "app/daemon/secret.hpp"
#include "app/daemon/section.hpp"
#include "app/failure_settings.hpp"
#include "app/transports.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/retention.hpp>
#include <posthorn/schedules.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::daemon {

struct listen_address {
    std::string host = {};
    int port = 0; ///< 0: any that is free

    [[nodiscard]] bool is_loopback() const;
    friend bool operator==(const listen_address&, const listen_address&) = default;
};

/// `127.0.0.1:9464` or `[::1]:9464`. Throws: `error` with `invalid_argument`.
[[nodiscard]] listen_address parse_address(std::string_view text);
[[nodiscard]] std::string to_string(const listen_address& where);

enum class log_form { text, json };

/// `[daemon]`
struct daemon_settings {
    std::string name = {}; ///< empty: host and process id, and "posthorn" as the owner of jobs
    std::size_t concurrency = 10;
    std::size_t in_flight = 500; ///< messages that are being relayed
    duration grace = std::chrono::seconds{30};
    duration lease = std::chrono::seconds{30};
    failure_settings failures = {};
    log_form log = log_form::text;
    log_level level = log_level::info;
    std::optional<listen_address> listen = {};
    bool prune_jobs = false;
};

/// `[metrics]`
struct metrics_settings {
    std::size_t topics_max = 100;
    std::size_t stores_max = 200;
    std::size_t endpoints_max = 100;            ///< of each transport
    duration refresh = std::chrono::seconds{5}; ///< of what is asked of stores, at the earliest
    std::size_t stores_per_second = 5;          ///< so many are asked
};

/// Stores that a query finds. Columns fill the places `{column}` of both texts.
struct discovery_settings {
    secret_url url = {};
    std::string query = {};
    std::string name = {};
    secret_url store = {};
};

/// `[[stores]]`
struct store_settings {
    std::string name = {}; ///< empty: as the address says
    secret_url url = {};   ///< may be a pattern of SQLite files
    std::optional<discovery_settings> discover = {};
    duration every = std::chrono::minutes{1};
    bool migrate = false;
    std::string key = {}; ///< where it stands in the file
};

/// `[transports.NAME]`
struct transport_settings {
    secret_url url = {};
    transport_opener open = {};
    place at = {};
    std::string key = {};
};

/// `[[topics]]`
struct topic_settings {
    std::vector<std::string> on = {};
    failure_settings failures = {};
};

/// `[[relays]]`
struct relay_settings {
    std::vector<std::string> on = {};
    std::string to = {};
    relay_options how = {};
    failure_settings failures = {};
};

/// `[[handlers]]`
struct handler_settings {
    std::vector<std::string> on = {};
    std::vector<std::string> command = {};
    std::size_t concurrency = 0; ///< 0: as the daemon says
    std::optional<duration> timeout = {};
    failure_settings failures = {};
};

/// `[[feeds]]`
struct feed_settings {
    secret_url from = {};
    feed_opener open = {};
    std::string store = {}; ///< its name
    std::string source = {};
    std::string topic = {};
    bool topic_wins = false;
    std::size_t batch = 100;
    place at = {};
    std::string key = {};
};

/// `[[endpoints]]`: a path where others post.
struct endpoint_settings {
    listen_address listen = {};
    std::string path = {};
    std::string source = {};
    std::vector<secret> secrets = {};
    bool unsigned_allowed = false;
    std::string topic = {};
    bool topic_wins = false;
    std::string store = {}; ///< its name
    place at = {};
    std::string key = {};
};

/// `[[schedules]]`
struct schedule_settings {
    std::string name = {};
    std::string store = {}; ///< its name; empty: all of them
    job_options job = {};
};

/// `[retention]`
struct retention_settings {
    duration every = std::chrono::hours{1};
    retention rules = {};
};

struct configuration {
    std::string file = {};
    daemon_settings daemon = {};
    metrics_settings metrics = {};
    std::vector<store_settings> stores = {};
    std::map<std::string, transport_settings, std::less<>> transports = {};
    std::vector<topic_settings> topics = {};
    std::vector<relay_settings> relays = {};
    std::vector<handler_settings> handlers = {};
    std::vector<feed_settings> feeds = {};
    std::vector<endpoint_settings> endpoints = {};
    std::vector<schedule_settings> schedules = {};
    std::optional<retention_settings> retention = {};

    std::vector<problem> warnings = {};
    std::vector<std::string> secrets = {}; ///< for the log, which never shows them
};

/// Several things are wrong with a file.
struct bad_configuration {
    std::string file = {};
    std::vector<problem> problems = {};
    std::vector<problem> warnings = {};
};

/// `posthorn.toml:12:3: handlers[0].command: …`
[[nodiscard]] std::string in_words(const std::string& file, const problem& which);

/// Throws: `bad_configuration` with everything that is wrong.
[[nodiscard]] configuration read_configuration(const std::string& file);

// The parts that deal with other systems; see config_routes.cpp.
class route_book;
void check_store_name(section& from, const configuration& so_far, const std::string& name);
void read_transports(section& root, configuration& into);
void read_relays(section& root, configuration& into, route_book& routes);
void read_feeds(section& root, configuration& into);
void read_endpoints(section& root, configuration& into);

// What becomes of failed messages; see config_failures.cpp.
[[nodiscard]] failure_settings read_failures(section& from);
[[nodiscard]] failure_settings read_failures_of_daemon(section& from);
void read_topics(section& root, configuration& into);

/// Which pattern is handled where: no pattern may be handled twice.
class route_book {
public:
    /// The patterns of `on`, those that can be used.
    std::vector<std::string> take(section& from);

private:
    std::map<std::string, std::uint32_t, std::less<>> lines_;
};

} // namespace posthorn::daemon
