// Each database is connected to once, by whoever comes first.
#include "store/postgres/schemas.hpp"

#include "store/postgres/backend.hpp"
#include "store/postgres/switchboard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace posthorn::postgres {
namespace {

// A wire that is cut says nothing. Whoever waits for an answer on it would do so for hours, and all
// schemas of the database with it; so the kernel is asked to find out.
void notice_cut_wires(location& where)
{
    for (const std::string_view each : {"keepalives_idle=10", "keepalives_interval=5",
                                        "keepalives_count=3", "tcp_user_timeout=15000"})
        if (where.conninfo.find(each.substr(0, each.find('=') + 1)) == std::string::npos)
            where.conninfo += fmt::format(
                "{}{}", where.conninfo.find('?') == std::string::npos ? '?' : '&', each);
}

// A schema is opened once: its backend is a few hundred bytes.
class opened_schema {
public:
    opened_schema(location where, store_options options, std::shared_ptr<shared_connections> shared)
        : where_(std::move(where)), options_(std::move(options)), shared_(std::move(shared))
    {}

    std::shared_ptr<contract::backend> get()
    {
        {
            const std::lock_guard lock(mutex_);
            if (one_)
                return one_;
        }
        auto made = std::make_shared<backend>(where_, options_, shared_);
        const std::lock_guard lock(mutex_);
        if (!one_)
            one_ = std::move(made);
        return one_;
    }

private:
    location where_;
    store_options options_;
    std::shared_ptr<shared_connections> shared_; ///< with the other schemas
    std::mutex mutex_;
    std::shared_ptr<contract::backend> one_;
};

class schemas final : public contract::premises {
public:
    schemas(store_options options, std::size_t connections_max)
        : options_(std::move(options)), connections_max_(connections_max)
    {}

    contract::reach way_to(const std::string& url) override
    {
        auto where = location::parse(url);
        const auto shared = database_of(where);
        auto schema = where.schema;
        auto kept = std::make_shared<opened_schema>(std::move(where), options_, shared.connections);
        contract::reach way{.open = [kept] { return kept->get(); }, .place = shared.key};
        if (shared.board)
            way.listen = [board = shared.board, schema](std::function<void()> ring) {
                return board->add(schema, std::move(ring));
            };
        return way;
    }

private:
    struct database {
        std::string key;
        std::shared_ptr<shared_connections> connections;
        std::shared_ptr<switchboard> board; ///< null: behind a pooler nobody can listen
    };

    database database_of(const location& where)
    {
        // Settings of a session are the same for all who use it.
        const auto key =
            fmt::format("{} {} {} {}", where.conninfo, where.lock_timeout.count(),
                        where.statement_timeout.count(), static_cast<int>(where.pooler));
        const std::lock_guard lock(mutex_);
        auto& found = databases_[key];
        if (!found.connections) {
            found.key = key;
            auto sized = where;
            sized.pool = connections_max_;
            notice_cut_wires(sized);
            found.connections = std::make_shared<shared_connections>(sized);
            if (where.pooler == location::pooling::none)
                found.board = std::make_shared<switchboard>(sized, options_.environment);
        }
        return found;
    }

    store_options options_;
    std::size_t connections_max_;
    std::mutex mutex_;
    std::map<std::string, database> databases_;
};

} // namespace

std::shared_ptr<contract::premises> make_schemas(const store_options& options,
                                                 std::size_t connections_max)
{
    return std::make_shared<schemas>(options, std::max<std::size_t>(connections_max, 1));
}

} // namespace posthorn::postgres
