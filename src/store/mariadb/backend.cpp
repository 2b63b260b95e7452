// Opening a MariaDB store, and reaching it again after the server was away.
#include "store/mariadb/backend.hpp"

#include "store/contract/hurry.hpp"
#include "store/contract/patience.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/mariadb/location.hpp"
#include "store/mariadb/outlook.hpp"
#include "store/mariadb/schema.hpp"
#include <posthorn/error.hpp>
#include <posthorn/mariadb.hpp>

#include <utility>

namespace posthorn::mariadb {
namespace {

constexpr int attempts_max = 6;

std::unique_ptr<connection> connect(const settings& where)
{
    auto db = connect_patiently(where);
    require_current(*db);
    return db;
}

bool may_pass(const error& failure)
{
    return failure.retryable() && (failure.code() == error_code::connection_lost ||
                                   failure.code() == error_code::unavailable);
}

// Runs what begins a transaction, so that nothing can have happened yet, again while the server is
// away: one that restarts is back within seconds. The pauses grow and are random, so that many
// workers do not come back all at once.
template <typename Work>
auto until_reached(const environment& world, Work&& work)
{
    for (int attempt = 1;; ++attempt) {
        try {
            return work();
        } catch (const error& failure) {
            const auto* const whose = contract::patience_scope::current();
            if (!may_pass(failure) || attempt == attempts_max ||
                (whose != nullptr && whose->is_over()))
                throw;
        }
        const auto ceiling = std::chrono::milliseconds{25} * (1 << attempt);
        contract::rest_patiently(world, std::chrono::duration_cast<duration>(
                                            std::chrono::duration<double, std::milli>(ceiling) *
                                            (0.5 + world.random->fraction() / 2)));
    }
}

} // namespace

backend::backend(settings where, const store_options& options)
    : where_(std::move(where)),
      options_(options),
      connections_(where_.pool, where_.lock_timeout, [this] { return connect(where_); }),
      leases_([this](const std::function<void(connection&)>& work) { on_any(work); })
{
    // A store that cannot be used says so when it is opened, not at the first message.
    const auto first = connections_.take();
}

std::unique_ptr<owned_session> backend::session_for(owned_session::purpose why)
{
    return until_reached(options_.environment, [&] {
        return std::make_unique<owned_session>(connections_, connections_.take(), why, hints_,
                                               options_.environment, options_.limits);
    });
}

std::unique_ptr<contract::session> backend::begin()
{
    return session_for(owned_session::purpose::write);
}

std::unique_ptr<contract::session> backend::begin_work()
{
    return session_for(contract::hurry::is_on() ? owned_session::purpose::work
                                                : owned_session::purpose::write);
}

std::unique_ptr<contract::session> backend::read()
{
    return session_for(owned_session::purpose::read);
}

// Outside a transaction, in which every statement sees the newest state by itself.
template <typename Question>
auto backend::ask(Question&& question)
{
    return until_reached(options_.environment, [&] {
        auto turn = connections_.take();
        try {
            return question(*turn);
        } catch (const error& failure) {
            if (failure.poisons_connection()) {
                turn.discard();
                connections_.drop_idle();
            }
            throw;
        }
    });
}

void backend::on_any(const std::function<void(connection&)>& work)
{
    ask([&](connection& db) { work(db); });
}

// A worker that has nothing to do looks, in one statement that locks nothing.
batch backend::claim(const contract::claim_request& request)
{
    const auto any_due = [&](connection& db) {
        return queue(db, &hints_.front, nullptr).any_due(request);
    };
    if (was_idle_ && !ask(any_due))
        return {};
    const auto own = session_for(owned_session::purpose::write);
    auto result = own->queue().claim(request);
    own->commit();
    was_idle_ = result.empty();
    return result;
}

// A statement that commits by itself. Said twice, because its answer was lost, it is the same.
contract::reserved_key backend::reserve(const contract::key_request& what)
{
    return ask([&](connection& db) { return command_keys(db).reserve(what); });
}

contract::outlook backend::outlook()
{
    return ask([&](connection& db) { return look_ahead(db, &hints_.front); });
}

// MariaDB cannot ring across processes: what others enqueue is looked for.
std::unique_ptr<contract::bell> backend::make_bell()
{
    return std::make_unique<contract::polling_bell>(hints_.bell, contract::pace_of_statements);
}

std::vector<enqueued> backend::insert(std::span<const contract::new_message> messages)
{
    const auto own = session_for(owned_session::purpose::write);
    auto result = own->writer().insert_or_end(messages);
    own->commit();
    return result;
}

store open(std::string_view url, const store_options& options)
{
    return store{std::make_shared<backend>(parse_location(url, options), options)};
}

migration_report migrate(std::string_view url, const store_options& options)
{
    auto where = parse_location(url, options);
    where.statement_timeout = std::chrono::hours{1}; // large tables take their time
    connection db(where);
    return bring_up_to_date(db);
}

} // namespace posthorn::mariadb
