// Reading lists of stores. Each has the name that it was given, or else its address.
#include "app/cli/store_list.hpp"

#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <glob.h>

#include <fstream>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace posthorn::cli {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";

bool is_pattern(std::string_view url)
{
    return url.starts_with(sqlite_scheme) &&
           url.substr(0, url.find('?')).find_first_of("*[") != std::string_view::npos;
}

std::string_view stripped(std::string_view text)
{
    constexpr std::string_view blank = " \t\r";
    const auto from = text.find_first_not_of(blank);
    if (from == std::string_view::npos)
        return {};
    return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

// The files that match now, as URLs with the parameters of the pattern.
std::vector<std::string> matching(const std::string& pattern)
{
    const auto question = pattern.find('?');
    const auto path = pattern.substr(sqlite_scheme.size(), question - sqlite_scheme.size());
    const auto parameters = question == std::string::npos ? "" : pattern.substr(question);
    glob_t found{};
    const int code = glob(path.c_str(), 0, nullptr, &found);
    const std::unique_ptr<glob_t, void (*)(glob_t*)> owned(&found, &globfree);
    if (code != 0 && code != GLOB_NOMATCH)
        throw error(error_code::unavailable, fmt::format("cannot look for files like '{}'", path));
    std::vector<std::string> urls;
    for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) {
        const std::string_view file = found.gl_pathv[i];
        if (!file.ends_with("-wal") && !file.ends_with("-shm") && !file.ends_with("-journal"))
            urls.push_back(fmt::format("{}{}{}", sqlite_scheme, file, parameters));
    }
    return urls;
}

// Without parameters and passwords: it is shown, and stays the same when they change. A schema is
// part of the address.
std::string address_of(const std::string& url)
{
    if (url.starts_with(sqlite_scheme))
        return url.substr(0, url.find('?'));
    return contract::without_password(url);
}

class collection {
public:
    void add(std::string name, const std::string& url)
    {
        if (is_pattern(url)) {
            if (!name.empty())
                throw error(error_code::invalid_argument,
                            fmt::format("'{}' is many files, and cannot have one name", url));
            for (const auto& each : matching(url))
                add_one(address_of(each), each);
        } else {
            add_one(name.empty() ? address_of(url) : std::move(name), url);
        }
    }
    [[nodiscard]] std::vector<named_store> take() { return std::move(all_); }

private:
    // A store may match two patterns.
    void add_one(std::string name, const std::string& url)
    {
        (void)migration_sql(url); // what is no URL says so
        if (known_.emplace(name, url).second)
            all_.push_back({.name = std::move(name), .url = url});
    }

    std::set<std::pair<std::string, std::string>> known_;
    std::vector<named_store> all_;
};

void read_file(const std::string& path, collection& into)
{
    std::ifstream file(path);
    if (!file)
        throw error(error_code::invalid_argument,
                    fmt::format("the list of stores '{}' cannot be read", path));
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        const auto text = stripped(std::string_view(line).substr(0, line.find('#')));
        if (text.empty())
            continue;
        // A URL may hold an equals sign as well, but only behind its colon.
        const auto equals = text.find('=');
        const bool named = equals != std::string_view::npos && equals < text.find(':');
        try {
            into.add(std::string(named ? stripped(text.substr(0, equals)) : ""),
                     std::string(named ? stripped(text.substr(equals + 1)) : text));
        } catch (const error& wrong) {
            throw error(wrong.code(), fmt::format("{}:{}: {}", path, number, wrong.what()));
        }
    }
}

} // namespace

bool store_selection::is_one_store() const
{
    return urls.size() == 1 && file.empty() && !is_pattern(urls.front());
}

std::vector<named_store> list_stores(const store_selection& which)
{
    collection all;
    for (const auto& each : which.urls)
        all.add({}, each);
    if (!which.file.empty())
        read_file(which.file, all);
    return all.take();
}

} // namespace posthorn::cli
