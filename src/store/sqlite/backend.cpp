// Opening an SQLite store.
#include "store/sqlite/backend.hpp"

#include "store/contract/message_queue.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/sessions.hpp"
#include "store/sqlite/watch.hpp"
#include <posthorn/error.hpp>
#include <posthorn/sqlite.hpp>

#include <fmt/format.h>

#include <utility>

namespace posthorn::sqlite {
namespace {

constexpr std::size_t reading_connections_max = 4;

// A fresh connection to a file; without its write-ahead log readers would block writers.
std::unique_ptr<connection> connect(const location& where)
{
    auto db =
        std::make_unique<connection>(where.path, connection::access::existing, where.settings);
    require_current(*db);
    if (const auto mode = db->pragma("journal_mode"); mode != "wal")
        throw error(
            error_code::unsupported,
            fmt::format(
                "{}: the journal mode is '{}', Posthorn needs 'wal'; `posthorn migrate` sets it",
                where.path, mode));
    return db;
}

// Reading connections cannot write: there is one writer per process, and this keeps it so.
std::unique_ptr<connection> connect_for_reading(const location& where)
{
    auto db = connect(where);
    db->execute("PRAGMA query_only=ON", "set query_only");
    return db;
}

// A store in memory lives in its one connection, so it is made with its tables.
std::unique_ptr<connection> connect_to_memory(const location& where)
{
    auto db = std::make_unique<connection>("", connection::access::memory, where.settings);
    bring_up_to_date(*db, where.settings.environment);
    return db;
}

} // namespace

backend::backend(location where, const store_options& options)
    : where_(std::move(where)),
      options_(options),
      // One writer per process: SQLite has one writer anyway,
      // and threads wait better on a lock than on a file.
      writers_(1, where_.settings.busy_timeout,
               [this] { return where_.in_memory() ? connect_to_memory(where_) : connect(where_); }),
      readers_(reading_connections_max, where_.settings.busy_timeout,
               [this] { return connect_for_reading(where_); }),
      leases_({.session = [this](owned_session::purpose why) { return session_for(why); },
               .bell =
                   [this](std::shared_ptr<contract::doorbell> here) {
                       return bell_of(std::move(here), std::chrono::milliseconds{100});
                   }})
{
    // A store that cannot be used says so when it is opened, not at the first message.
    const auto first = writers_.take();
}

// What is committed into a file that has no name any more is lost, and what another process commits
// into the file of that name would not be seen here.
backend::connections::turn backend::take(connections& from)
{
    auto turn = from.take();
    if (turn->is_at_its_path())
        return turn;
    turn.discard();
    from.drop_idle();
    if (const auto& log = options_.environment.log)
        log(log_level::warning,
            fmt::format("{}: the file was removed or replaced; it is opened anew", where_.path));
    return from.take();
}

std::unique_ptr<owned_session> backend::session_for(owned_session::purpose why)
{
    if (why == owned_session::purpose::write)
        return std::make_unique<owned_session>(take(writers_), why, options_.environment,
                                               options_.limits, doorbell_.get());
    return std::make_unique<owned_session>(take(where_.in_memory() ? writers_ : readers_), why,
                                           options_.environment, options_.limits);
}

std::unique_ptr<contract::session> backend::begin()
{
    return session_for(owned_session::purpose::write);
}

std::unique_ptr<contract::session> backend::read()
{
    return session_for(owned_session::purpose::read);
}

// An idle worker looks without the write lock, so that it never stands in a writer's way.
batch backend::claim(const contract::claim_request& request)
{
    {
        owned_session look(take(where_.in_memory() ? writers_ : readers_),
                           owned_session::purpose::read, options_.environment, options_.limits);
        if (!look.queue().any_due(request))
            return {};
    }
    for (;;) {
        owned_session own(take(writers_), owned_session::purpose::write, options_.environment,
                          options_.limits);
        auto result = own.queue().claim(request);
        const bool more_to_pass = result.empty() && own.queue().log_has_more();
        own.commit();
        if (!more_to_pass)
            return result;
    }
}

// Within this process a commit rings; for others, a look at the file's counter of commits is cheap
// enough to be taken often.
std::unique_ptr<contract::bell> backend::bell_of(std::shared_ptr<contract::doorbell> here,
                                                 duration look_every) const
{
    if (where_.in_memory()) // nobody else can reach it
        return std::make_unique<contract::polling_bell>(
            std::move(here), contract::polling_bell::pace{}, [] { return false; });
    const contract::polling_bell::pace often{.cap = look_every};
    return std::make_unique<contract::polling_bell>(
        std::move(here), often,
        // Shared because a std::function must be copyable; nobody else has it.
        [others = std::make_shared<watch>(where_)] { return others->changed(); });
}

std::unique_ptr<contract::bell> backend::make_bell()
{
    return bell_of(doorbell_, std::chrono::milliseconds{20});
}

store open(std::string_view url, const store_options& options)
{
    return store{std::make_shared<backend>(location::parse(url, options), options)};
}

migration_report migrate(std::string_view url, const store_options& options)
{
    const auto where = location::parse(url, options);
    if (where.in_memory())
        throw error(
            error_code::invalid_argument,
            "sqlite::memory: needs no migration: every such store is new and has its tables");
    connection db(where.path, connection::access::create, where.settings);
    return bring_up_to_date(db, options.environment);
}

} // namespace posthorn::sqlite
