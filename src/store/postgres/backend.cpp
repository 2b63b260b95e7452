// Opening a PostgreSQL store, and connecting again when the server comes back.
#include "store/postgres/backend.hpp"

#include "store/contract/hurry.hpp"
#include "store/contract/patience.hpp"
#include "store/postgres/lease_bell.hpp"
#include "store/postgres/listening_bell.hpp"
#include "store/postgres/schema.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>
#include <posthorn/postgres.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace posthorn::postgres {
namespace {

// How often a lost server is tried before a caller hears of it: about four seconds.
constexpr int connects_max = 6;
constexpr std::chrono::milliseconds first_pause{100};

conversation::purpose purpose_of_work()
{
    return contract::hurry::is_on() ? conversation::purpose::work : conversation::purpose::write;
}

} // namespace

shared_connections::shared_connections(location where)
    : pool(where.pool, where.lock_timeout,
           [this] {
               auto db = connect_patiently(where_, connection::serving::many_schemas);
               ++opened_;
               return db;
           }),
      where_(std::move(where))
{}

backend::backend(location where, const store_options& options,
                 std::shared_ptr<shared_connections> shared)
    : where_(std::move(where)),
      options_(options),
      doorbell_(where_.pooler == location::pooling::none ? nullptr
                                                         : std::make_shared<contract::doorbell>()),
      shared_(std::move(shared)),
      pool_(where_.pool, where_.lock_timeout, [this] { return connect(); }),
      leases_(
          {.run = [this](const auto& which, const auto& with) { return run_alone(which, with); },
           .bell = [this](std::string_view name) { return make_lease_bell(name); },
           .ring = [this] { released_->ring(); }},
          options_.environment)
{
    // A store that cannot be used says so when it is opened, not at the first message.
    auto first = take();
    try {
        if (shared_) {
            require_current(*first, where_);
            read_mark(*first, frontier_);
        }
    } catch (...) {
        leave_clean(connections(), first);
        throw;
    }
    opened_ = true;
}

// A connection that lives, and speaks of this schema.
pool::turn backend::take()
{
    auto turn = take_alive(connections());
    if (!shared_)
        return turn;
    turn->serve(where_.prefix());
    try {
        if (const auto opened = shared_->opened();
            seen_opened_.exchange(opened) != opened && opened_)
            read_mark(*turn, frontier_);
    } catch (...) {
        seen_opened_ = 0;
        leave_clean(connections(), turn);
        throw;
    }
    return turn;
}

std::unique_ptr<connection> backend::connect()
{
    const auto& world = options_.environment;
    for (int attempt = 1;; ++attempt) {
        try {
            auto db = connect_patiently(where_);
            require_current(*db, where_);
            read_mark(*db, frontier_);
            return db;
        } catch (const error& failure) {
            // What was never reached is more likely misspelt than restarting.
            if (!opened_ || !failure.retryable() || attempt == connects_max)
                throw;
        }
        // Everybody lost the server at once; they should not all come back at once.
        const auto ceiling = first_pause * (1 << attempt);
        contract::rest_patiently(world, std::chrono::duration_cast<duration>(
                                            std::chrono::duration<double, std::milli>(ceiling) *
                                            (0.5 + world.random->fraction() / 2)));
    }
}

owned_session backend::own_session(conversation::purpose why)
{
    return {connections(), take(),         why, options_.environment, options_.limits,
            frontier_,     doorbell_.get()};
}

std::unique_ptr<contract::session> backend::begin()
{
    return std::make_unique<owned_session>(connections(), take(), conversation::purpose::write,
                                           options_.environment, options_.limits, frontier_,
                                           doorbell_.get());
}

std::unique_ptr<contract::session> backend::begin_work()
{
    return std::make_unique<owned_session>(connections(), take(), purpose_of_work(),
                                           options_.environment, options_.limits, frontier_,
                                           doorbell_.get());
}

std::unique_ptr<contract::session> backend::read()
{
    return std::make_unique<owned_session>(connections(), take(), conversation::purpose::read,
                                           options_.environment, options_.limits, frontier_,
                                           nullptr);
}

batch backend::claim(const contract::claim_request& request)
{
    try {
        return own_session().queue().claim_and_commit(request);
    } catch (const error& failure) {
        if (failure.code() != error_code::constraint)
            throw;
    }
    return own_session().queue().claim_and_commit(request); // see there
}

std::vector<enqueued> backend::insert(std::span<const contract::new_message> messages)
{
    if (!takes_one_statement(messages))
        return contract::backend::insert(messages);
    auto turn = take();
    try {
        conversation talk(*turn, conversation::purpose::write);
        auto result = insert_at_once(talk, messages, options_.environment);
        if (doorbell_)
            doorbell_->ring();
        return result;
    } catch (...) {
        leave_clean(connections(), turn);
        throw;
    }
}

std::vector<settled_as> backend::settle(std::string_view owner, fence which,
                                        std::span<const contract::decided> what, bool keep_done)
{
    auto own = own_session(purpose_of_work());
    auto answers = own.queue().settle_and_commit(owner, which, what, keep_done);
    if (doorbell_ && own.writer().has_added()) // by what follows the ends of messages
        doorbell_->ring();
    return answers;
}

contract::reserved_key backend::reserve(const contract::key_request& what)
{
    if (where_.pooler != location::pooling::none)
        return contract::backend::reserve(what);
    auto turn = take();
    try {
        return reserve_at_once(*turn, what, options_.environment);
    } catch (...) {
        leave_clean(connections(), turn);
        throw;
    }
}

// One statement on its own, and so one round trip; behind a pooler it needs its settings.
contract::outlook backend::outlook()
{
    if (where_.pooler != location::pooling::none)
        return contract::backend::outlook();
    auto turn = take();
    try {
        return outlook_from(
            turn->run(sql::outlook::text, outlook_arguments(frontier_, options_.environment)));
    } catch (...) {
        leave_clean(connections(), turn);
        throw;
    }
}

rows backend::run_alone(const contract::named_statement& which, const arguments& with)
{
    auto turn = take();
    try {
        return conversation(*turn, conversation::purpose::write).run_alone(which, with);
    } catch (...) {
        leave_clean(connections(), turn);
        throw;
    }
}

// A sleeper must not hang on a server that is gone without a word.
location backend::where_to_listen() const
{
    auto where = where_;
    if (where.conninfo.find("tcp_user_timeout=") == std::string::npos)
        where.conninfo += fmt::format("{}tcp_user_timeout=5000",
                                      where.conninfo.find('?') == std::string::npos ? '?' : '&');
    return where;
}

// Behind a pooler nobody can listen: what is enqueued here wakes at once, all else is looked for.
std::unique_ptr<contract::bell> backend::make_bell()
{
    if (doorbell_)
        return std::make_unique<contract::polling_bell>(doorbell_, contract::pace_of_statements);
    return std::make_unique<listening_bell>(where_to_listen(), options_.environment, frontier_);
}

std::unique_ptr<contract::bell> backend::make_lease_bell(std::string_view name) const
{
    if (doorbell_)
        return std::make_unique<contract::polling_bell>(released_, contract::pace_of_statements);
    return std::make_unique<lease_bell>(where_to_listen(), options_.environment, std::string(name));
}

store open(std::string_view url, const store_options& options)
{
    return store{std::make_shared<backend>(location::parse(url), options)};
}

migration_report migrate(std::string_view url, const store_options& options)
{
    const auto where = location::parse(url);
    connection db(where);
    db.wait_for_ever();
    return bring_up_to_date(db, where, options.environment);
}

} // namespace posthorn::postgres
