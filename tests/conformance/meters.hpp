// What an action sends to its database, counted: statements, and how often somebody waits for the
// server.
#pragma once

#include "conformance/store_under_test.hpp"
#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/sqlite.hpp>

#include <libpq-fe.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::conformance {

/// Of SQLite, which adds one message at a time and never waits for a server, only the statements on
/// the tables that somebody asked for are counted.
struct cost {
    int statements = 0;
    int round_trips = 0; ///< of prepared statements
    int waits = 0;       ///< all that the client waits for, the beginnings and ends included
};

class meter {
public:
    virtual ~meter() = default;
    virtual void reset() = 0;
    virtual cost read() = 0;
};

class sqlite_meter final : public meter {
public:
    sqlite_meter(store& where, std::vector<std::string> tables) : tables_(std::move(tables))
    {
        auto tx = where.begin();
        db_ = sqlite::native_handle(tx);
        sqlite3_trace_v2(db_, SQLITE_TRACE_STMT, &heard, this);
    }
    ~sqlite_meter() override { sqlite3_trace_v2(db_, 0, nullptr, nullptr); }
    void reset() override { seen_ = {}; }
    cost read() override { return seen_; }

private:
    static int heard(unsigned /*kind*/, void* self, void* /*statement*/, void* text)
    {
        auto& mine = *static_cast<sqlite_meter*>(self);
        const std::string_view sql(static_cast<const char*>(text));
        const auto named = [&](const std::string& table) { return sql.find(table) != sql.npos; };
        mine.seen_.statements += std::ranges::any_of(mine.tables_, named) ? 1 : 0;
        return 0;
    }

    std::vector<std::string> tables_;
    sqlite3* db_ = nullptr; ///< the store's, which outlives this
    cost seen_;
};

class postgres_meter final : public meter {
public:
    explicit postgres_meter(store& where) : stream_(open_memstream(&text_, &size_))
    {
        auto tx = where.begin();
        PQtrace(postgres::native_handle(tx), stream_);
        PQsetTraceFlags(postgres::native_handle(tx), PQTRACE_SUPPRESS_TIMESTAMPS);
    }
    ~postgres_meter() override
    {
        std::fclose(stream_); // Requires: the connection is gone, or silent
        std::free(text_);
    }
    void reset() override
    {
        std::fflush(stream_);
        read_to_ = size_;
    }
    cost read() override
    {
        std::fflush(stream_);
        std::string_view rest(text_ + read_to_, size_ - read_to_);
        cost result;
        while (!rest.empty()) {
            const auto line = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(rest.size(), line.size() + 1));
            result.statements += line.starts_with("F") && line.find("\tExecute\t") != line.npos;
            result.round_trips += line.starts_with("F") && line.find("\tSync") != line.npos;
            // Several requests may be under way at once: what counts is who waits for answers.
            result.waits += line.starts_with("B") && line.find("\tReadyForQuery") != line.npos;
        }
        return result;
    }

private:
    char* text_ = nullptr;
    std::size_t size_ = 0;
    std::size_t read_to_ = 0;
    std::FILE* stream_;
};

class mariadb_meter final : public meter {
public:
    mariadb_meter(store& where, store_under_test& with) : where_(where), with_(with)
    {
        reset();
        own_waits_ = read().waits;
    }
    void reset() override
    {
        statements_before_ = counted("COM_STMT_EXECUTE");
        waits_before_ = counted("QUESTIONS");
    }
    cost read() override
    {
        const int waits = counted("QUESTIONS") - waits_before_ - own_waits_;
        const int statements = counted("COM_STMT_EXECUTE") - statements_before_;
        return {.statements = statements, .round_trips = statements, .waits = waits};
    }

private:
    int counted(const std::string& name)
    {
        auto tx = where_.begin();
        return std::stoi(with_
                             .run_in(tx, "SELECT VARIABLE_VALUE FROM "
                                         "information_schema.SESSION_STATUS WHERE VARIABLE_NAME "
                                         "= '" +
                                             name + "'")
                             .value());
    }

    store where_;
    store_under_test& with_;
    int statements_before_ = 0;
    int waits_before_ = 0;
    int own_waits_ = 0; ///< the asking itself
};

/// The same store over a single connection, so that a meter hears everything.
inline store store_to_watch(const store_kind& kind, const store_under_test& under_test,
                            const store& already_open, const environment& world)
{
    if (kind.name != "postgres" && kind.name != "mariadb")
        return already_open;
    auto url = under_test.url();
    url += url.find('?') == url.npos ? "?pool=1" : "&pool=1";
    return posthorn::open(url, {.environment = world});
}

/// Lifetime: of PostgreSQL, the store must go first, for its connection speaks of its end.
inline std::unique_ptr<meter> meter_of(const store_kind& kind, store& watched,
                                       store_under_test& under_test,
                                       std::vector<std::string> tables_of_sqlite)
{
    if (kind.name == "postgres")
        return std::make_unique<postgres_meter>(watched);
    if (kind.name == "mariadb")
        return std::make_unique<mariadb_meter>(watched, under_test);
    return std::make_unique<sqlite_meter>(watched, std::move(tables_of_sqlite));
}

} // namespace posthorn::conformance
