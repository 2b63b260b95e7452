// Lists of stores: one by one, by patterns of files, or by a query.
#include "app/daemon/store_book.hpp"

#include "app/cli/store_list.hpp"
#include "app/daemon/query.hpp"
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn::daemon {
namespace {

bool stays_in_url(char c, bool is_file)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~").find(c) != std::string_view::npos || (is_file && c == '/');
}

// Fills the places `{column}`. Inside of a URL nothing that a row holds can be more than a value.
std::string filled_from(const std::string& text, const found_row& row, bool is_url)
{
    const bool is_file = text.starts_with("sqlite:");
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto end = text[at] == '{' ? text.find('}', at) : std::string::npos;
        if (end == std::string::npos) {
            result.push_back(text[at]);
            continue;
        }
        const auto name = text.substr(at + 1, end - at - 1);
        const auto found = row.find(name);
        if (found == row.end()) {
            std::vector<std::string> columns;
            for (const auto& [each, value] : row)
                columns.push_back(each);
            throw error(error_code::invalid_argument,
                        fmt::format("the query has no column '{}'; it has {}", name,
                                    fmt::join(columns, ", ")));
        }
        for (const char c : found->second)
            result += !is_url || stays_in_url(c, is_file)
                          ? std::string(1, c)
                          : fmt::format("%{:02X}", static_cast<unsigned char>(c));
        at = end;
    }
    return result;
}

std::vector<named_store> discovered(const discovery_settings& how)
{
    std::vector<named_store> result;
    for (const auto& row : run_query(how.url, how.query)) {
        named_store each{.name = filled_from(how.name, row, false),
                         .url = filled_from(how.store.reveal(), row, true)};
        (void)migration_sql(each.url); // what is no URL says so
        result.push_back(std::move(each));
    }
    return result;
}

} // namespace

std::string default_name(const secret_url& url)
{
    auto name = url.shown();
    const auto& text = url.reveal();
    auto rest = std::string_view(text).substr(std::min(text.size(), text.find('?')));
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const auto pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(pair.size());
        if (pair.starts_with("schema=") || pair.starts_with("prefix="))
            name += fmt::format("?{}", pair);
    }
    return name;
}

std::vector<named_store> find_stores(const store_settings& which)
{
    if (which.discover)
        return discovered(*which.discover);
    if (!which.name.empty())
        return {{.name = which.name, .url = which.url.reveal()}};
    return cli::list_stores({.urls = {which.url.reveal()}});
}

store_book::store_book(std::vector<store_settings> entries, std::shared_ptr<journal> log)
    : log_(std::move(log))
{
    for (auto& each : entries)
        entries_.push_back({.what = std::move(each)});
}

duration store_book::every() const
{
    auto shortest = duration::max();
    for (const auto& each : entries_)
        shortest = std::min(shortest, each.what.every);
    return shortest;
}

std::vector<named_store> store_book::list()
{
    const std::lock_guard lock(mutex_);
    std::vector<named_store> all;
    std::set<std::string, std::less<>> names;
    for (auto& each : entries_) {
        const auto now = world_.clock->monotonic();
        if (!each.asked_at || each.failed || now - *each.asked_at >= each.what.every) {
            refresh(each);
            each.asked_at = now;
        }
        if (each.what.migrate)
            migrate_new(each.found);
        for (const auto& store : each.found)
            if (names.insert(store.name).second)
                all.push_back(store);
    }
    return all;
}

void store_book::refresh(entry& which)
{
    try {
        which.found = find_stores(which.what);
        for (const auto& each : which.found)
            log_->hide(secret_url(each.url).secrets());
        which.failed = false;
    } catch (const std::exception& failure) {
        which.failed = true;
        log_->write(log_level::warning, "cannot look for stores; those known so far stay",
                    {{"key", which.what.key}, {"error", failure.what()}});
    }
}

void store_book::migrate_new(const std::vector<named_store>& these)
{
    for (const auto& each : these) {
        if (migrated_.contains(each.url))
            continue;
        try {
            const auto report = migrate(each.url);
            migrated_.insert(each.url);
            if (!report.applied.empty())
                log_->write(
                    log_level::info, "tables were brought up to date",
                    {{"store", each.name}, {"version", fmt::format("{}", report.version_after)}});
        } catch (const std::exception& failure) {
            log_->write(log_level::warning, "cannot bring tables up to date, will try again",
                        {{"store", each.name}, {"error", failure.what()}});
        }
    }
}

} // namespace posthorn::daemon
