// Metrics as Prometheus reads them: text, a family at a time.
#include "app/cli/state_words.hpp"
#include "app/daemon/metrics.hpp"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <unistd.h>

namespace posthorn::daemon {
namespace {

struct label {
    std::string_view name;
    std::string_view value;
};

// How many bytes the character at the beginning has; 0: it is no UTF-8.
std::size_t sequence_length(std::string_view text)
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto first = byte(0);
    if (first < 0x80)
        return 1;
    const std::size_t length = first < 0xC2   ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0 || text.size() < length)
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xC0U) != 0x80)
            return 0;
    // Written longer than need be, half of a pair, or beyond the last character there is.
    const auto second = byte(1);
    const bool odd = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return odd ? 0 : length;
}

// Names as they may be shown. Two may look alike then, but no sample may be there twice.
class shown_names {
public:
    explicit shown_names(const std::function<std::string(std::string)>& shown) : shown_(&shown) {}

    [[nodiscard]] std::string of(const std::string& name)
    {
        auto result = (*shown_)(name);
        for (int number = 2; !taken_.insert(result).second; ++number)
            result = fmt::format("{}#{}", (*shown_)(name), number);
        return result;
    }
    template <typename Numbers>
    [[nodiscard]] static auto all(const std::function<std::string(std::string)>& shown,
                                  const numbers_by_name<Numbers>& from)
    {
        shown_names names(shown);
        auto list = from.list();
        for (auto& [name, each] : list)
            name = names.of(name);
        return list;
    }

private:
    const std::function<std::string(std::string)>* shown_;
    std::set<std::string> taken_;
};

class exposition_text {
public:
    void family(std::string_view name, std::string_view type, std::string_view help)
    {
        name_ = name;
        fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                       type);
    }
    template <typename Number>
    void sample(std::initializer_list<label> labels, Number number, std::string_view suffix = {})
    {
        text_ += name_;
        text_ += suffix;
        if (labels.size() > 0) {
            text_ += '{';
            for (bool first = true; const auto& each : labels) {
                fmt::format_to(std::back_inserter(text_), "{}{}=\"", first ? "" : ",", each.name);
                escape(each.value);
                text_ += '"';
                first = false;
            }
            text_ += '}';
        }
        fmt::format_to(std::back_inserter(text_), " {}\n", number);
    }
    template <typename Number>
    void single(std::string_view name, std::string_view type, std::string_view help, Number number)
    {
        family(name, type, help);
        sample({}, number);
    }
    void distribution(std::string_view label_name, std::string_view label_value,
                      const histogram& which)
    {
        const auto now = which.read();
        for (std::size_t i = 0; i < histogram::bounds_ms.size(); ++i)
            sample({{label_name, label_value},
                    {"le", fmt::format("{}", static_cast<double>(histogram::bounds_ms[i]) / 1e3)}},
                   now.up_to[i], "_bucket");
        sample({{label_name, label_value}, {"le", "+Inf"}}, now.up_to.back(), "_bucket");
        sample({{label_name, label_value}}, now.sum_seconds, "_sum");
        sample({{label_name, label_value}}, now.up_to.back(), "_count");
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

private:
    // Invalid UTF-8 would spoil the whole page. Topics are checked when they are enqueued, but the
    // name of a store may be that of a file, which can be any bytes.
    void escape(std::string_view value)
    {
        while (!value.empty()) {
            const auto length = sequence_length(value);
            const char c = value.front();
            if (length == 0)
                fmt::format_to(std::back_inserter(text_), "%{:02X}", static_cast<unsigned char>(c));
            else if (c == '\\')
                text_ += "\\\\";
            else if (c == '"')
                text_ += "\\\"";
            else if (c == '\n')
                text_ += "\\n";
            else
                text_ += value.substr(0, length);
            value.remove_prefix(std::max<std::size_t>(length, 1));
        }
    }

    std::string name_;
    std::string text_;
};

double seconds_of(duration length)
{
    return std::chrono::duration<double>(length).count();
}

template <typename Topics>
void write_topics(exposition_text& to, const Topics& topics)
{
    to.family("posthorn_deliveries_started_total", "counter", "Handlers that were started.");
    for (const auto& [topic, each] : topics)
        to.sample({{"topic", topic}}, each->started.load());
    to.family("posthorn_deliveries_settled_total", "counter", "What became of deliveries.");
    for (const auto& [topic, each] : topics)
        for (std::size_t i = 0; i < each->settled.size(); ++i)
            to.sample({{"topic", topic}, {"outcome", to_string(static_cast<settled_as>(i))}},
                      each->settled[i].load());
    to.family("posthorn_handler_duration_seconds", "histogram", "How long handlers took.");
    for (const auto& [topic, each] : topics)
        to.distribution("topic", topic, each->took);
    to.family("posthorn_start_lag_seconds", "histogram",
              "From when a message was due to its start.");
    for (const auto& [topic, each] : topics)
        to.distribution("topic", topic, each->late);
}

template <typename Transports>
void write_transports(exposition_text& to, const Transports& transports)
{
    to.family("posthorn_published_total", "counter", "What transports answered.");
    for (const auto& [name, each] : transports) {
        to.sample({{"transport", name}, {"answer", "accepted"}}, each->accepted.load());
        to.sample({{"transport", name}, {"answer", "duplicate"}}, each->duplicates.load());
        to.sample({{"transport", name}, {"answer", "refused"}}, each->refused.load());
        to.sample({{"transport", name}, {"answer", "unknown"}}, each->unknown.load());
    }
    to.family("posthorn_transport_ready", "gauge",
              "1 if the other side was there when there was last something to send.");
    for (const auto& [name, each] : transports)
        if (const auto now = each->ready.load(); now != readiness::unknown)
            to.sample({{"transport", name}}, now == readiness::ready ? 1 : 0);
    to.family("posthorn_publish_duration_seconds", "histogram", "How long a batch took.");
    for (const auto& [name, each] : transports)
        to.distribution("transport", name, each->took);
}

template <typename Transports>
void write_endpoints(exposition_text& to, const Transports& transports,
                     const std::function<std::string(std::string)>& shown)
{
    struct named_row {
        std::string transport;
        endpoint_numbers::row numbers;
    };
    std::vector<named_row> rows;
    for (const auto& [transport, each] : transports) {
        shown_names names(shown);
        for (auto& row : each->endpoints.list()) {
            row.endpoint = names.of(row.endpoint);
            rows.push_back({transport, std::move(row)});
        }
    }
    to.family("posthorn_webhook_endpoint_open", "gauge",
              "1 while an endpoint is left alone for its failures: its breaker is open.");
    for (const auto& [transport, numbers] : rows)
        to.sample({{"transport", transport}, {"endpoint", numbers.endpoint}}, numbers.left);
    to.family("posthorn_webhook_endpoint_opened_total", "counter",
              "Times that an endpoint began to be left alone.");
    for (const auto& [transport, numbers] : rows)
        to.sample({{"transport", transport}, {"endpoint", numbers.endpoint}}, numbers.times);
}

template <typename Feeds>
void write_feeds(exposition_text& to, const Feeds& feeds)
{
    to.family("posthorn_fed_total", "counter",
              "Messages from outside: stored, known already, or refused.");
    for (const auto& [source, each] : feeds) {
        to.sample({{"source", source}, {"answer", "stored"}}, each->stored.load());
        to.sample({{"source", source}, {"answer", "repeated"}}, each->repeated.load());
        to.sample({{"source", source}, {"answer", "refused"}}, each->refused.load());
    }
    to.family("posthorn_feed_failures_total", "counter",
              "Times that a store could not take what a feed brought.");
    for (const auto& [source, each] : feeds)
        to.sample({{"source", source}}, each->failures.load());
}

// One row of the families about stores; those beyond the bound are one row together.
struct store_row {
    std::string name;
    store_stats counts = {};
    bool counted = false;
    std::size_t failing = 0;
    std::size_t handled = 0;
    duration lag = {};

    void add(const store_row& more)
    {
        counts.ready += more.counts.ready;
        counts.delayed += more.counts.delayed;
        counts.retrying += more.counts.retrying;
        counts.waiting += more.counts.waiting;
        counts.parked += more.counts.parked;
        counts.claimed += more.counts.claimed;
        counts.dead += more.counts.dead;
        counts.enqueued += more.counts.enqueued;
        counts.blocked_keys += more.counts.blocked_keys;
        if (more.counts.oldest_ready)
            counts.oldest_ready =
                std::max(counts.oldest_ready.value_or(duration{}), *more.counts.oldest_ready);
        counted = counted || more.counted;
        failing += more.failing;
        handled += more.handled;
        lag = std::max(lag, more.lag);
    }
};

void write_stores(exposition_text& to, const std::vector<store_row>& rows)
{
    to.family("posthorn_store_messages", "gauge", "Messages in a store, by state.");
    for (const auto& each : rows) {
        if (!each.counted)
            continue;
        const auto state = [&](std::string_view name, std::int64_t count) {
            to.sample({{"store", each.name}, {"state", name}}, count);
        };
        state("ready", each.counts.ready);
        state("delayed", cli::delayed_only(each.counts));
        state("retrying", each.counts.retrying);
        state("waiting", each.counts.waiting);
        state("parked", each.counts.parked);
        state("claimed", each.counts.claimed);
        state("dead", each.counts.dead);
    }
    const auto gauge = [&](std::string_view name, std::string_view help, auto number) {
        to.family(name, "gauge", help);
        for (const auto& each : rows)
            if (each.counted)
                to.sample({{"store", each.name}}, number(each));
    };
    gauge("posthorn_store_backlog", "Messages that are due or wait for another of their key.",
          [](const store_row& each) { return each.counts.ready + each.counts.waiting; });
    gauge("posthorn_store_oldest_ready_seconds", "How long the oldest due message has waited.",
          [](const store_row& each) {
              return seconds_of(each.counts.oldest_ready.value_or(duration{}));
          });
    gauge("posthorn_store_blocked_keys", "Ordering keys that a dead message holds back.",
          [](const store_row& each) { return each.counts.blocked_keys; });
    to.family("posthorn_store_enqueued_total", "counter",
              "Messages that were enqueued since the store was made.");
    for (const auto& each : rows)
        if (each.counted)
            to.sample({{"store", each.name}}, each.counts.enqueued);
    to.family("posthorn_store_failing", "gauge",
              "1 while a store fails and is left alone: its breaker is open.");
    for (const auto& each : rows)
        to.sample({{"store", each.name}}, each.failing);
    to.family("posthorn_store_handled_total", "counter",
              "Messages that were handled since the last (re)load.");
    for (const auto& each : rows)
        to.sample({{"store", each.name}}, each.handled);
    to.family("posthorn_store_claim_lag_seconds", "gauge",
              "How long the oldest message of the last claim had been due.");
    for (const auto& each : rows)
        to.sample({{"store", each.name}}, seconds_of(each.lag));
}

std::size_t open_files()
{
    std::size_t count = 0;
    if (auto* folder = ::opendir("/proc/self/fd")) {
        while (::readdir(folder) != nullptr) // NOLINT(concurrency-mt-unsafe): the folder is ours
            ++count;
        ::closedir(folder);
    }
    return count > 3 ? count - 3 : 0; // without the two dots and the folder itself
}

void write_process(exposition_text& to, timestamp began)
{
    const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    std::ifstream stat("/proc/self/stat");
    std::string line;
    std::getline(stat, line);
    // The second field is the program's name, which may hold anything, in parentheses.
    std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
    const auto field = [&](std::size_t number) {
        return number - 3 < fields.size() ? std::strtod(fields[number - 3].c_str(), nullptr) : 0.0;
    };
    to.single("process_cpu_seconds_total", "counter", "Processor time.",
              (field(14) + field(15)) / ticks);
    to.single("process_resident_memory_bytes", "gauge", "Resident memory.",
              static_cast<std::int64_t>(field(24)) * ::sysconf(_SC_PAGESIZE));
    to.single("process_threads", "gauge", "Threads.", static_cast<std::int64_t>(field(20)));
    to.single("process_open_fds", "gauge", "Open files.", open_files());
    to.single("process_start_time_seconds", "gauge", "When the daemon began.",
              fmt::format("{:.3f}", seconds_of(began.time_since_epoch())));
}

} // namespace

std::string metrics::exposition(const daemon_view& now,
                                const std::function<std::string(std::string)>& shown) const
{
    exposition_text to;
    to.family("posthorn_build_info", "gauge", "The version.");
    to.sample({{"version", POSTHORN_VERSION}}, 1);
    to.single("posthorn_draining", "gauge", "1 while the daemon ends.", now.draining ? 1 : 0);
    to.single("posthorn_handlers_running", "gauge", "Handlers that run now.", now.running);
    to.single("posthorn_stores", "gauge", "Stores that are served.", now.stores.size());
    to.single("posthorn_stores_failing", "gauge", "Stores that are left alone for a while.",
              std::ranges::count(now.stores, store_state::failing, &store_status::state));
    to.family("posthorn_reloads_total", "counter", "Times that the configuration was read again.");
    to.sample({{"answer", "done"}}, reloads.load());
    to.sample({{"answer", "refused"}}, reloads_failed.load());
    to.single("posthorn_retention_removed_total", "counter", "Rows that were removed.",
              cleaned.load());
    to.family("posthorn_log_lines_total", "counter", "Lines that were logged.");
    constexpr std::array<std::string_view, 4> levels{"debug", "info", "warning", "error"};
    for (std::size_t i = 0; i < levels.size(); ++i)
        to.sample({{"level", levels.at(i)}}, now.log_lines.at(i));
    write_topics(to, shown_names::all(shown, topics_));
    const auto transports = shown_names::all(shown, transports_);
    write_transports(to, transports);
    write_endpoints(to, transports, shown);
    write_feeds(to, shown_names::all(shown, feeds_));

    shown_names names(shown);
    std::vector<store_row> rows;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& each : now.stores) {
            store_row row{.name = rows.size() < how_.stores_max ? names.of(each.name) : "other",
                          .failing = each.state == store_state::failing ? 1U : 0U,
                          .handled = each.handled,
                          .lag = each.lag};
            if (const auto found = stores_.find(each.name); found != stores_.end()) {
                row.counts = found->second.counts;
                row.counted = found->second.counted;
            }
            if (rows.size() < how_.stores_max) {
                rows.push_back(std::move(row));
            } else {
                if (rows.back().name != "other")
                    rows.push_back({.name = "other"});
                rows.back().add(row);
            }
        }
    }
    write_stores(to, rows);
    write_process(to, began_);
    return to.take();
}

} // namespace posthorn::daemon
