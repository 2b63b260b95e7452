// From a file to a configuration. All sections are read, whatever is wrong with the ones before, so
// that everything can be put right at once.
#include "app/cli/child_process.hpp"
#include "app/cli/text.hpp"
#include "app/cli/values.hpp"
#include "app/daemon/config.hpp"
#include "app/daemon/endpoints.hpp"
#include "app/daemon/store_book.hpp"
#include "core/job.hpp"
#include "core/validation.hpp"
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <system_error>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

// NOLINTNEXTLINE(concurrency-mt-unsafe): nobody in this process changes the environment
std::optional<std::string> environment_variable(const std::string& name)
{
    const char* found = std::getenv(name.c_str());
    return found == nullptr ? std::nullopt : std::optional<std::string>(found);
}

void read_daemon(section& root, daemon_settings& into)
{
    auto from = root.table("daemon");
    if (!from)
        return;
    into.name = from->text("name").value_or("");
    if (into.name.size() > 200)
        from->refuse("name", "is longer than 200 bytes");
    into.concurrency = static_cast<std::size_t>(from->whole("concurrency", 1, 1'000).value_or(10));
    into.in_flight = static_cast<std::size_t>(from->whole("in_flight", 1, 100'000).value_or(500));
    into.grace = from->time("grace").value_or(into.grace);
    into.lease = from->time("lease", 1s, 24h).value_or(into.lease);
    into.failures = read_failures_of_daemon(*from);
    static const std::array<std::string, 2> forms{"text", "json"};
    if (from->one_of("log", forms) == "json")
        into.log = log_form::json;
    static const std::array<std::string, 4> levels{"debug", "info", "warning", "error"};
    if (const auto level = from->one_of("log_level", levels))
        into.level = static_cast<log_level>(std::ranges::find(levels, *level) - levels.begin());
    const bool open_to_all = from->flag("listen_public").value_or(false);
    if (const auto text = from->text("listen"))
        from->check("listen", [&] {
            const auto address = parse_address(*text);
            if (!address.is_loopback() && !open_to_all)
                throw error(error_code::invalid_argument,
                            fmt::format("'{}' can be reached from elsewhere, and anybody could "
                                        "read there; if that is meant, say listen_public = true",
                                        *text));
            into.listen = address;
        });
    into.prune_jobs = from->flag("prune_jobs").value_or(false);
    from->finish();
}

void read_metrics(section& root, metrics_settings& into)
{
    auto from = root.table("metrics");
    if (!from)
        return;
    into.topics_max = static_cast<std::size_t>(from->whole("topics_max", 1, 10'000).value_or(100));
    into.stores_max = static_cast<std::size_t>(from->whole("stores_max", 1, 10'000).value_or(200));
    into.endpoints_max =
        static_cast<std::size_t>(from->whole("endpoints_max", 1, 10'000).value_or(100));
    into.refresh = from->time("refresh", 100ms).value_or(into.refresh);
    into.stores_per_second =
        static_cast<std::size_t>(from->whole("stores_per_second", 1, 1'000).value_or(5));
    from->finish();
}

// A text that is no URL at all is not quoted: somebody may have given us a password instead.
void check_store_url(section& from, std::string_view name, const secret_url& url)
{
    static const std::array<std::string, 4> schemes{"sqlite", "postgresql", "postgres", "mariadb"};
    const auto scheme = url.scheme();
    if (std::ranges::find(schemes, scheme) == schemes.end()) {
        const auto meant = cli::nearest(scheme, schemes);
        from.refuse(name,
                    fmt::format("is no URL of a store: those begin with sqlite:, postgresql: "
                                "or mariadb:{}",
                                meant.empty() ? "" : fmt::format("; did you mean {}:?", meant)));
        return;
    }
    from.check(name, [&] { (void)migration_sql(url.reveal()); });
}

std::optional<discovery_settings> read_discovery(section& parent)
{
    auto from = parent.table("discover");
    if (!from)
        return std::nullopt;
    discovery_settings result;
    from->require("url", "the database to ask");
    from->require("query", "SQL that finds a row for each store");
    from->require("name", "each store's name, with {column} for what the query found");
    from->require("store", "each store's URL, with {column} for what the query found");
    if (auto url = from->url("url")) {
        check_store_url(*from, "url", *url);
        result.url = *std::move(url);
    }
    result.query = from->text("query").value_or("");
    result.name = from->text("name").value_or("");
    if (!result.name.empty() && result.name.find('{') == std::string::npos)
        from->refuse("name", "needs a {column}: each store has a name of its own");
    if (auto url = from->url("store")) {
        if (url->reveal().find('{') == std::string::npos)
            from->refuse("store", "needs a {column}: each store has a URL of its own");
        result.store = *std::move(url);
    }
    from->finish();
    return result;
}

void read_stores(section& root, configuration& into)
{
    if (!root.has("stores"))
        root.noted().refuse({1, 1}, "stores", "is missing: a daemon needs at least one [[stores]]");
    std::map<std::string, std::uint32_t> lines;
    for (auto& from : root.tables("stores")) {
        store_settings result{.key = from.path()};
        result.name = from.text("name").value_or("");
        result.every = from.time("every", 1s).value_or(result.every);
        result.migrate = from.flag("migrate").value_or(false);
        if (!from.has("url") && !from.has("discover"))
            from.require("url",
                         "a store's URL, a pattern such as sqlite:tenants/*.db, or discover");
        if (from.has("url") && from.has("discover"))
            from.refuse("discover", "cannot stand beside a url: write two [[stores]]");
        if (auto url = from.url("url")) {
            check_store_url(from, "url", *url);
            const bool pattern =
                url->scheme() == "sqlite" && url->shown().find_first_of("*[") != std::string::npos;
            if (pattern && !result.name.empty())
                from.refuse("name", "the url means many files, and they cannot have one name");
            if (!pattern && result.name.empty())
                result.name = default_name(*url);
            result.url = *std::move(url);
        }
        result.discover = read_discovery(from);
        if (result.discover && from.has("name"))
            from.refuse("name", "stands inside of discover: each store has its own");
        if (!result.name.empty()) {
            const auto [at, added] = lines.emplace(result.name, from.at().line);
            if (!added)
                from.refuse("name", fmt::format("the store '{}' is in line {} already", result.name,
                                                at->second));
        }
        from.finish();
        into.stores.push_back(std::move(result));
    }
}

// A command line in one string is what most people try first. There is no shell that takes it
// apart; a program may have a blank in its name.
void check_command(const std::vector<std::string>& words)
{
    try {
        (void)cli::find_command(words);
    } catch (const error& wrong) {
        const auto& text = words.front();
        if (words.size() != 1 || text.find(' ') == std::string::npos)
            throw;
        std::vector<std::string> parts;
        for (std::size_t at = 0; at < text.size();) {
            const auto end = std::min(text.find(' ', at), text.size());
            if (end > at)
                parts.push_back(fmt::format("\"{}\"", text.substr(at, end - at)));
            at = end + 1;
        }
        throw error(error_code::invalid_argument,
                    fmt::format("{}. It is one string with blanks in it, and no shell reads it: "
                                "write the program and its arguments as a list, such as [{}]",
                                wrong.what(), fmt::join(parts, ", ")));
    }
}

void read_handlers(section& root, configuration& into, route_book& routes)
{
    for (auto& from : root.tables("handlers")) {
        handler_settings result{.on = routes.take(from)};
        from.require("command", "the program and its arguments: [\"python3\", \"order.py\"]");
        result.command = from.texts("command");
        if (!result.command.empty())
            from.check("command", [&] { check_command(result.command); });
        else if (from.is_empty_list("command"))
            from.refuse("command", "should name a program, and its arguments");
        result.concurrency =
            static_cast<std::size_t>(from.whole("concurrency", 1, 1'000).value_or(0));
        result.timeout = from.time("timeout", 1ms);
        result.failures = read_failures(from);
        from.finish();
        into.handlers.push_back(std::move(result));
    }
}

void read_times(section& from, job_options& job)
{
    if (from.has("cron") == from.has("every"))
        from.refuse(from.has("cron") ? "every" : "cron",
                    from.has("cron") ? "cannot stand beside cron: a job has one of them"
                                     : "is missing: when it runs, as cron or every");
    job.cron = from.text("cron").value_or("");
    job.zone = from.text("zone").value_or("UTC");
    job.every = from.time("every", 1s);
    if (from.has("zone") && !from.has("cron"))
        from.refuse("zone", "is for cron; an interval is the same everywhere");
    if (job.cron.empty())
        return;
    bool zone_is_known = true;
    from.check("zone", [&] {
        try {
            (void)schedule::cron("@daily", job.zone);
        } catch (const error&) {
            zone_is_known = false;
            throw;
        }
    });
    from.check("cron", [&] {
        (void)schedule::cron(job.cron, zone_is_known ? job.zone : std::string("UTC"));
    });
}

// Each key by itself, as the store will see it, and then all of them.
void check_schedule(section& from, const schedule_settings& which)
{
    const auto& job = which.job;
    const message any{.topic = "any", .payload = {}};
    if (from.has("name"))
        from.check("name", [&] { core::check_job_name(which.name); });
    from.check("headers", [&] { core::check_message(any, {.headers = job.headers}, limits{}); });
    from.check("key", [&] { core::check_key("the key", job.ordering_key); });
    from.check("topic", [&] { core::check_own_topic(job.run.topic); });
    if (from.is_clean())
        from.check("name", [&] { core::check_job(which.name, job, {}); });
}

void read_schedules(section& root, configuration& into)
{
    std::map<std::string, std::uint32_t> lines;
    for (auto& from : root.tables("schedules")) {
        schedule_settings result;
        from.require("name", "by which the job is known in its stores");
        result.name = from.text("name").value_or("");
        result.store = from.text("store").value_or("");
        if (!result.store.empty())
            check_store_name(from, into, result.store);
        const auto [at, added] = lines.emplace(result.name + '\n' + result.store, from.at().line);
        if (!result.name.empty() && !added)
            from.refuse("name",
                        fmt::format("the job '{}' is in line {} already", result.name, at->second));
        auto& job = result.job;
        job.run.topic = from.required_text("topic", "of the message that is enqueued for each run");
        job.run.payload = from.text("payload").value_or("");
        read_times(from, job);
        if (const auto text = from.text("misfire"))
            from.check("misfire", [&] { job.on_misfire = cli::read_misfire(*text); });
        if (const auto text = from.text("overlap"))
            from.check("overlap", [&] { job.on_overlap = cli::read_overlap(*text); });
        job.late_after = from.time("late_after", 1s).value_or(job.late_after);
        job.jitter = from.time("jitter").value_or(job.jitter);
        job.priority = static_cast<int>(from.whole("priority", -100, 100).value_or(0));
        job.ordering_key = from.text("key").value_or("");
        for (auto& [name, text] : from.pairs("headers"))
            job.headers.emplace(std::move(name), std::move(text));
        check_schedule(from, result);
        from.finish();
        into.schedules.push_back(std::move(result));
    }
}

void read_retention(section& root, configuration& into)
{
    auto from = root.table("retention");
    if (!from)
        return;
    retention_settings result;
    auto& rules = result.rules;
    result.every = from->time("every", 1s).value_or(result.every);
    rules.finished = from->time("keep").value_or(rules.finished);
    rules.dead = from->time("keep_dead");
    rules.joins = from->time("keep_joins");
    rules.inbox = from->time("keep_inbox").value_or(rules.inbox);
    // A row that is gone too soon makes a request new that was recorded on its way.
    if (!into.endpoints.empty() && rules.inbox < replay_window())
        from->refuse("keep_inbox",
                     fmt::format("should be at least {}: for so long a signed request can be sent "
                                 "to an endpoint once more, and must be known",
                                 cli::age(replay_window())));
    rules.leases = from->time("keep_leases").value_or(rules.leases);
    rules.executions = from->time("keep_executions").value_or(rules.executions);
    from->finish();
    into.retention = result;
}

// No mistake: jobs and joins of its stores go on, and its numbers can be asked for. But most likely
// a part of the file is missing.
void warn_of_idleness(section& root, const configuration& what)
{
    const bool has_work = !what.relays.empty() || !what.handlers.empty() || !what.feeds.empty() ||
                          !what.endpoints.empty() || !what.schedules.empty() || what.retention ||
                          what.daemon.prune_jobs;
    if (!has_work && root.noted().clean())
        root.noted().warn({}, {},
                          "gives the daemon no work: there are no [[handlers]], [[relays]], "
                          "[[feeds]], [[endpoints]], [[schedules]] and no [retention]; it only "
                          "keeps jobs and joins of its stores going");
}

// Whoever may read the file may read what is in it.
void warn_of_plain_secrets(const std::string& file, findings& noted)
{
    struct stat about {};
    if (noted.plain_secret() && ::stat(file.c_str(), &about) == 0 && (about.st_mode & S_IROTH) != 0)
        noted.warn(noted.plain_secret()->at, noted.plain_secret()->key,
                   "holds a secret, and everybody on this machine can read the file; keep it "
                   "elsewhere with { env = \"NAME\" } or { file = \"PATH\" }, or chmod o-r");
}

// Only a regular file: reading a pipe could wait for ever, and it cannot be read again at a reload.
std::string text_of(const std::string& file)
{
    const auto refuse = [&](const std::string& why) {
        throw bad_configuration{file, {{{}, {}, "cannot be read: " + why}}, {}};
    };
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0)
        refuse(std::generic_category().message(errno));
    if (S_ISDIR(found.st_mode))
        refuse("it is a directory");
    if (!S_ISREG(found.st_mode))
        refuse("it is not a regular file");
    errno = 0;
    std::ifstream stream(file, std::ios::binary);
    if (!stream)
        refuse(std::generic_category().message(errno));
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    if (stream.bad())
        refuse(std::generic_category().message(errno));
    return text;
}

} // namespace

bool listen_address::is_loopback() const
{
    if (host == "localhost" || host == "::1")
        return true;
    in_addr address{}; // a name such as 127.example.org can lead anywhere
    return ::inet_pton(AF_INET, host.c_str(), &address) == 1 &&
           (ntohl(address.s_addr) >> 24U) == 127;
}

listen_address parse_address(std::string_view text)
{
    const auto colon = text.rfind(':');
    listen_address result;
    if (colon != std::string_view::npos) {
        auto host = text.substr(0, colon);
        if (host.starts_with('[') && host.ends_with(']'))
            host = host.substr(1, host.size() - 2);
        else if (host.find(':') != std::string_view::npos)
            host = {};
        const auto port = text.substr(colon + 1);
        const auto [end, failed] =
            std::from_chars(port.data(), port.data() + port.size(), result.port);
        const bool is_port = failed == std::errc{} && end == port.data() + port.size() &&
                             result.port >= 0 && result.port <= 65'535;
        result.host = host;
        if (is_port && !host.empty())
            return result;
    }
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is no address to listen at; write for example 127.0.0.1:9464 or "
                            "[::1]:9464",
                            text));
}

std::string to_string(const listen_address& where)
{
    const bool six = where.host.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", six ? "[" : "", where.host, six ? "]" : "", where.port);
}

std::string in_words(const std::string& file, const problem& which)
{
    auto result = cli::printable(file);
    if (which.at.line > 0)
        result += fmt::format(":{}:{}", which.at.line, which.at.column);
    if (!which.key.empty())
        result += ": " + cli::printable(which.key);
    return result + ": " + which.message;
}

configuration read_configuration(const std::string& file)
{
    findings noted(&environment_variable);
    value document;
    try {
        document = read_toml(text_of(file));
    } catch (const not_toml& wrong) {
        throw bad_configuration{file, {{wrong.at, {}, cli::printable(wrong.message)}}, {}};
    }
    configuration result{.file = file};
    for (auto& each : inherited_passwords())
        noted.secrets().add(std::move(each));
    section root(document, {}, noted);
    route_book routes;
    read_daemon(root, result.daemon);
    read_metrics(root, result.metrics);
    read_stores(root, result);
    read_topics(root, result);
    read_transports(root, result);
    read_relays(root, result, routes);
    read_handlers(root, result, routes);
    read_feeds(root, result);
    read_endpoints(root, result);
    read_schedules(root, result);
    read_retention(root, result);
    root.finish();
    warn_of_idleness(root, result);
    warn_of_plain_secrets(file, noted);
    if (!noted.clean())
        throw bad_configuration{file, noted.problems(), noted.warnings()};
    result.warnings = noted.warnings();
    result.secrets = noted.secrets().all();
    return result;
}

} // namespace posthorn::daemon
