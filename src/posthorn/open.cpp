// From a URL to its store: the one place that knows all engines.
#include "posthorn/waiting_work.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>
#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/sqlite.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn {
namespace {

struct engine {
    std::string_view scheme;
    store (*open)(std::string_view, const store_options&);
    migration_report (*migrate)(std::string_view, const store_options&);
    std::string (*migration_sql)(std::string_view);
    std::vector<finding> (*diagnose)(std::string_view, const store_options&);
};

constexpr std::array engines{
    engine{"sqlite", &sqlite::open, &sqlite::migrate, &sqlite::migration_sql, &sqlite::diagnose},
    engine{"postgresql", &postgres::open, &postgres::migrate, &postgres::migration_sql,
           &postgres::diagnose},
    engine{"postgres", &postgres::open, &postgres::migrate, &postgres::migration_sql,
           &postgres::diagnose},
    engine{"mariadb", &mariadb::open, &mariadb::migrate, &mariadb::migration_sql,
           &mariadb::diagnose},
};

const engine& engine_of(std::string_view url)
{
    const auto scheme = url.substr(0, url.find(':'));
    const auto* found = std::ranges::find(engines, scheme, &engine::scheme);
    if (found != engines.end() && scheme.size() < url.size())
        return *found;
    (void)contract::store_url::parse(url); // no URL at all says so in its own words
    throw error(error_code::invalid_argument,
                fmt::format("no store has the scheme '{}'; known are sqlite:PATH, "
                            "postgresql://user@host/database and mariadb://user@host/database",
                            scheme));
}

} // namespace

store open(std::string_view url, const store_options& options)
{
    return engine_of(url).open(url, options);
}

migration_report migrate(std::string_view url, const store_options& options)
{
    return engine_of(url).migrate(url, options);
}

std::string migration_sql(std::string_view url)
{
    return engine_of(url).migration_sql(url);
}

std::vector<finding> diagnose(std::string_view url, const store_options& options)
{
    auto findings = engine_of(url).diagnose(url, options);
    const auto has_problem = [](std::string_view check) {
        return [check](const finding& each) {
            return each.check == check && each.level == severity::problem;
        };
    };
    // What cannot be read has been reported already.
    if (std::ranges::any_of(findings, has_problem("schema version")) ||
        std::ranges::any_of(findings, has_problem("reading")) ||
        std::ranges::none_of(findings,
                             [](const auto& each) { return each.check == "dead letters"; }))
        return findings;
    try {
        auto where = open(url, options);
        look_at_waiting_work(where, findings);
    } catch (const error& failure) {
        findings.push_back({severity::problem, "reading", failure.what()});
    }
    return findings;
}

} // namespace posthorn
