// Stores one by one, by patterns of files, or by a query.
#include "app/daemon/store_search.hpp"

#include "app/cli/store_list.hpp"
#include "app/daemon/query.hpp"
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
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

// The columns that a template names: `{column}`.
std::vector<std::string> columns_of(const std::string& text)
{
    std::vector<std::string> names;
    for (auto at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1))
        if (const auto end = text.find('}', at); end != std::string::npos)
            names.push_back(text.substr(at + 1, end - at - 1));
    return names;
}

// `tenant-{slug}` without a slug is no name: it would be that of all rows which have none.
bool fills(const found_row& row, const std::string& text)
{
    return std::ranges::any_of(columns_of(text), [&](const auto& column) {
        const auto found = row.find(column);
        return found != row.end() && !found->second.empty();
    });
}

// What is wrong with the store of a row, if it is none of its own.
std::optional<std::string> wrong_with(const named_store& which,
                                      const std::map<std::string, std::string>& url_of)
{
    if (const auto other = url_of.find(which.name);
        other != url_of.end() && other->second != which.url)
        return fmt::format("is called '{}' like another one", which.name);
    try {
        (void)migration_sql(which.url); // what is no URL says so
    } catch (const error& failure) {
        return fmt::format("is called '{}' and cannot be a store: {}", which.name, failure.what());
    }
    return std::nullopt;
}

// A column that the query has not is no matter of a row, and is thrown.
std::vector<named_store> discovered(const discovery_settings& how,
                                    std::vector<std::string>& left_out)
{
    std::vector<named_store> result;
    std::map<std::string, std::string> url_of;
    std::size_t number = 0;
    const auto leave_out = [&](std::string_view why) {
        left_out.push_back(fmt::format("row {} {}", number, why));
    };
    for (const auto& row : run_query(how.url, how.query)) {
        ++number;
        named_store each{.name = filled_from(how.name, row, false),
                         .url = filled_from(how.store.reveal(), row, true)};
        if (!fills(row, how.name))
            leave_out("has no name");
        else if (!fills(row, how.store.reveal()))
            leave_out("does not say which store");
        else if (const auto why = wrong_with(each, url_of))
            leave_out(*why);
        else if (url_of.emplace(each.name, each.url).second)
            result.push_back(std::move(each));
    }
    return result;
}

} // namespace

bool is_fixed(const store_settings& which)
{
    return !which.discover && !which.name.empty();
}

std::string default_name(const secret_url& url)
{
    auto name = url.shown();
    if (name.ends_with("//***")) // what looks like a parameter may be the password
        return name;
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

std::vector<named_store> find_stores(const store_settings& which,
                                     std::vector<std::string>& left_out)
{
    if (which.discover)
        return discovered(*which.discover, left_out);
    if (is_fixed(which))
        return {{.name = which.name, .url = which.url.reveal()}};
    return cli::list_stores({.urls = {which.url.reveal()}});
}

} // namespace posthorn::daemon
