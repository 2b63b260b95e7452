// Connections and statements. Statements that belong together travel in one pipeline: their
// answers come back in one round trip.
#include "store/postgres/connection.hpp"

#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <poll.h>
#include <utility>

namespace posthorn::postgres {
namespace {

bool succeeded(const PGresult* result)
{
    const auto status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

// Everything our own sessions want. Where another role may create operators and functions, the
// server must not choose among them: names are its own, or carry a schema.
// Reading whole tables, or sorting all that waits in order to
// take the first hundred, is what PostgreSQL falls back to when its statistics are old, and on
// these tables it is never right. So one plan fits all arguments, and is not made again each time.
std::string session_settings(const location& where)
{
    return fmt::format("SET search_path = pg_catalog, pg_temp; "
                       "SET lock_timeout = {}; SET statement_timeout = {}; "
                       "SET default_transaction_isolation = 'read committed'; "
                       "SET enable_seqscan = off; SET enable_hashjoin = off; "
                       "SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off; "
                       "SET plan_cache_mode = force_generic_plan",
                       where.lock_timeout.count() / 1'000, where.statement_timeout.count() / 1'000);
}

} // namespace

std::size_t rows::changed() const
{
    const std::string_view text = PQcmdTuples(result_.get());
    std::size_t count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

bool rows::is_null(int row, int column) const
{
    return PQgetisnull(result_.get(), row, column) != 0;
}

std::int64_t rows::integer(int row, int column) const
{
    const auto bytes = text(row, column);
    if (bytes.empty())
        return 0;
    // Sign-extend from the first byte: smallint, integer and bigint all come this way.
    std::int64_t value = static_cast<signed char>(bytes[0]);
    for (const char each : bytes.substr(1))
        value = static_cast<std::int64_t>((static_cast<std::uint64_t>(value) << 8U) |
                                          static_cast<unsigned char>(each));
    return value;
}

std::string_view rows::text(int row, int column) const
{
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

message_id rows::id(int row, int column) const
{
    const auto bytes = text(row, column);
    uuid value;
    if (bytes.size() != value.bytes.size())
        throw error(error_code::corrupt, "a message id in the database is not a UUID");
    for (std::size_t i = 0; i < bytes.size(); ++i)
        value.bytes[i] = static_cast<std::uint8_t>(bytes[i]);
    return message_id{value};
}

std::optional<timestamp> rows::time_or_none(int row, int column) const
{
    const auto value = integer(row, column);
    return value == 0 ? std::nullopt : std::optional{timestamp{duration{value}}};
}

connection::connection(const location& where, serving whom)
    : owned_(true),
      prepares_(where.pooler == location::pooling::none && whom == serving::one_schema),
      prefix_(where.prefix())
{
    const std::array keywords{"dbname", "fallback_application_name", "client_encoding",
                              static_cast<const char*>(nullptr)};
    const std::array values{where.conninfo.c_str(), "posthorn", "UTF8",
                            static_cast<const char*>(nullptr)};
    db_ = PQconnectdbParams(keywords.data(), values.data(), 1);
    PQsetNoticeProcessor(
        db_, [](void*, const char*) {}, nullptr);
    try {
        if (PQstatus(db_) != CONNECTION_OK)
            throw_error(db_, nullptr, "connect");
        if (where.pooler == location::pooling::none)
            execute(session_settings(where), "settings");
        else
            local_settings_.emplace()
                .set(sql::set_locally::lock_timeout, where.lock_timeout.count() / 1'000)
                .set(sql::set_locally::statement_timeout, where.statement_timeout.count() / 1'000);
    } catch (...) {
        PQfinish(db_);
        throw;
    }
}

connection::connection(PGconn* lent, std::string prefix)
    : db_(lent), owned_(false), prepares_(false), prefix_(std::move(prefix))
{}

connection::~connection()
{
    if (owned_)
        PQfinish(db_);
}

void connection::serve(const std::string& prefix)
{
    if (prefix == prefix_)
        return;
    prefix_ = prefix;
    texts_.clear();
    known_worker.reset();
}

std::string connection::with_prefix(std::string_view text) const
{
    return contract::with_prefix(text, prefix_);
}

bool connection::in_transaction() const
{
    const auto status = PQtransactionStatus(db_);
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

bool connection::is_alive()
{
    if (PQstatus(db_) != CONNECTION_OK)
        return false;
    // An idle connection is silent. If there is something to read, it is the server's last word or
    // the end itself; a rare notice costs a new connection, a statement sent to nobody a doubt.
    pollfd waiting{.fd = PQsocket(db_), .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) <= 0;
}

std::string connection::name_of(const contract::named_statement& which) const
{
    return prepares_ ? "posthorn_" + std::string(which.name) : std::string{};
}

const std::string& connection::text_of(const contract::named_statement& which)
{
    const auto index = static_cast<std::size_t>(which.index);
    if (texts_.size() <= index)
        texts_.resize(index + 1);
    if (texts_[index].empty())
        texts_[index] = with_prefix(which.text);
    return texts_[index];
}

bool connection::is_prepared(const contract::named_statement& which) const
{
    const auto index = static_cast<std::size_t>(which.index);
    return index < prepared_.size() && prepared_[index];
}

void connection::mark_prepared(const contract::named_statement& which)
{
    const auto index = static_cast<std::size_t>(which.index);
    if (prepared_.size() <= index)
        prepared_.resize(index + 1);
    prepared_[index] = true;
}

rows connection::run(const contract::named_statement& which, const arguments& with,
                     commit_sent commit)
{
    if (prepares_ && !is_prepared(which)) {
        PGresult* made = PQprepare(db_, name_of(which).c_str(), text_of(which).c_str(), 0, nullptr);
        const rows owned(made);
        if (!succeeded(made))
            throw_error(db_, made, which.name);
        mark_prepared(which);
    }
    const auto native = with.for_libpq(which.parameters);
    PGresult* result =
        prepares_
            ? PQexecPrepared(db_, name_of(which).c_str(), which.parameters, native.values.data(),
                             native.lengths.data(), native.formats.data(), 1)
            : PQexecParams(db_, text_of(which).c_str(), which.parameters, nullptr,
                           native.values.data(), native.lengths.data(), native.formats.data(), 1);
    rows owned(result);
    if (!succeeded(result))
        throw_error(db_, result, which.name, commit);
    return owned;
}

std::vector<rows> connection::run_all(const std::vector<step>& steps, commit_sent commit)
{
    if (owned_ && steps.size() > 1)
        return run_in_pipeline(steps, commit);
    std::vector<rows> results;
    results.reserve(steps.size());
    for (const auto& each : steps)
        results.push_back(run(each.which, each.with, commit));
    return results;
}

void connection::send(const step& what)
{
    const auto& [which, with] = what;
    const auto native = with.for_libpq(which.parameters);
    const int sent = prepares_ ? PQsendQueryPrepared(db_, name_of(which).c_str(), which.parameters,
                                                     native.values.data(), native.lengths.data(),
                                                     native.formats.data(), 1)
                               : PQsendQueryParams(db_, text_of(which).c_str(), which.parameters,
                                                   nullptr, native.values.data(),
                                                   native.lengths.data(), native.formats.data(), 1);
    if (sent == 0)
        throw_error(db_, nullptr, which.name);
}

std::vector<rows> connection::run_in_pipeline(const std::vector<step>& steps, commit_sent commit)
{
    // Each entry is an answer to wait for: a preparation, or a step.
    std::vector<std::pair<const contract::named_statement*, bool>> expected;
    if (PQenterPipelineMode(db_) == 0)
        throw_error(db_, nullptr, "pipeline");
    for (const auto& each : steps) {
        if (prepares_ && !is_prepared(each.which)) {
            const auto already = std::ranges::any_of(expected, [&](const auto& e) {
                return !e.second && e.first->index == each.which.index;
            });
            if (!already) {
                if (PQsendPrepare(db_, name_of(each.which).c_str(), text_of(each.which).c_str(), 0,
                                  nullptr) == 0)
                    throw_error(db_, nullptr, each.which.name, commit);
                expected.emplace_back(&each.which, false);
            }
        }
        send(each);
        expected.emplace_back(&each.which, true);
    }
    if (PQpipelineSync(db_) == 0)
        throw_error(db_, nullptr, "pipeline", commit);

    std::vector<rows> results;
    results.reserve(steps.size());
    std::optional<rows> failed;
    std::string_view failed_name;
    for (const auto& [which, is_step] : expected) {
        auto* result = PQgetResult(db_);
        if (result == nullptr)
            throw_error(db_, nullptr, which->name, commit); // the connection is gone
        rows owned(result);
        if (PQstatus(db_) != CONNECTION_OK)
            throw_error(db_, result, which->name, commit);
        if (auto* end = PQgetResult(db_); end != nullptr)
            PQclear(end); // never: one result per statement, then nothing
        if (!succeeded(result)) {
            if (!failed) {
                failed.emplace(std::move(owned));
                failed_name = which->name;
            }
        } else if (is_step) {
            results.push_back(std::move(owned));
        } else {
            mark_prepared(*which);
        }
    }
    PQclear(PQgetResult(db_)); // the synchronisation point
    if (PQexitPipelineMode(db_) == 0)
        throw_error(db_, nullptr, "pipeline", commit);
    if (failed)
        throw_error(db_, failed->native(), failed_name);
    return results;
}

void connection::execute(const std::string& sql, std::string_view during)
{
    PGresult* result = PQexec(db_, sql.c_str());
    const rows owned(result);
    if (!succeeded(result))
        throw_error(db_, result, during);
}

std::optional<std::string> connection::ask(const std::string& sql, std::string_view during)
{
    PGresult* result = PQexec(db_, sql.c_str());
    const rows owned(result);
    if (!succeeded(result))
        throw_error(db_, result, during);
    if (owned.empty() || owned.is_null(0, 0))
        return std::nullopt;
    return std::string(owned.text(0, 0));
}

} // namespace posthorn::postgres
