// Connections and statements. Statements that belong together travel in one pipeline: their
// answers come back in one round trip.
#include "store/postgres/connection.hpp"

#include "store/contract/held_elsewhere.hpp"
#include "store/contract/patience.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <poll.h>
#include <sys/socket.h>
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

// A server that works ends a statement itself when its time is over: one that says nothing for
// longer hangs, or is out of reach. A pooler may keep a statement waiting before the server has it.
duration silence_max(const location& where)
{
    using namespace std::chrono_literals;
    if (where.statement_timeout == duration::zero())
        return duration::zero();
    const duration more = where.pooler == location::pooling::none ? 10s : 130s;
    return where.statement_timeout + more;
}

// A connection of ours does not block while it sends, so that a server that reads nothing cannot
// hold it up. A borrower finds it as libpq makes it.
class without_blocking {
public:
    explicit without_blocking(PGconn* db) : db_(db) { PQsetnonblocking(db_, 1); }
    without_blocking(const without_blocking&) = delete;
    without_blocking& operator=(const without_blocking&) = delete;
    ~without_blocking() { PQsetnonblocking(db_, 0); }

private:
    PGconn* db_;
};

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
      silence_max_(silence_max(where)),
      lock_timeout_(std::chrono::duration_cast<std::chrono::milliseconds>(where.lock_timeout)),
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

void connection::fail(const PGresult* failed, std::string_view during, commit_sent commit)
{
    try {
        throw_error(db_, failed, during, commit,
                    was_silent_ ? "the server has not answered for too long" : "");
    } catch (const contract::held_elsewhere&) {
        held_at_ = std::chrono::steady_clock::now();
        throw;
    }
}

// Workers hold a lock for the rest of a short transaction. An application may hold it for longer,
// and hold more of them: then they must not cost the long wait one by one.
std::chrono::milliseconds connection::brief_wait() const
{
    using namespace std::chrono_literals;
    const bool was_held = held_at_ && std::chrono::steady_clock::now() - *held_at_ < 1s;
    const auto wait = was_held ? 2ms : 50ms;
    return lock_timeout_ > 0ms ? std::min(std::chrono::milliseconds{wait}, lock_timeout_) : wait;
}

// Waits until the socket is ready. False: the wait is over, and with it the connection; what libpq
// says next is that it has ended.
bool connection::wait_for(short events)
{
    using clock = std::chrono::steady_clock;
    const auto* const whose = contract::patience_scope::current();
    const auto end = clock::now() + silence_max_;
    pollfd waiting{.fd = PQsocket(db_), .events = events, .revents = 0};
    for (;;) {
        const bool for_ever = silence_max_ == duration::zero();
        auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
        const bool over =
            (!for_ever && left.count() <= 0) || (whose != nullptr && whose->is_over());
        if (over) {
            was_silent_ = true;
            shutdown(waiting.fd, SHUT_RDWR);
            return false;
        }
        if (whose != nullptr)
            left = for_ever ? contract::patience_look_every
                            : std::min(left, contract::patience_look_every);
        const int ready =
            poll(&waiting, 1,
                 for_ever && whose == nullptr
                     ? -1
                     : static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000)));
        if (ready > 0)
            return true;
    }
}

// While the server reads nothing because it waits for us to read, we do.
void connection::flush()
{
    int left = PQflush(db_);
    while (left == 1) {
        if (!wait_for(POLLIN | POLLOUT) || PQconsumeInput(db_) == 0)
            return;
        left = PQflush(db_);
    }
}

PGresult* connection::next_result()
{
    while (PQisBusy(db_) != 0)
        if (!wait_for(POLLIN) || PQconsumeInput(db_) == 0)
            break;
    return PQgetResult(db_);
}

// What was sent is answered by its last result, or by the error that ended it.
rows connection::answer()
{
    flush();
    rows last(nullptr);
    while (auto* next = next_result())
        last = rows(next);
    return last;
}

rows connection::run_lent(const contract::named_statement& which, const arguments& with,
                          commit_sent commit)
{
    const auto native = with.for_libpq(which.parameters);
    rows owned(PQexecParams(db_, text_of(which).c_str(), which.parameters, nullptr,
                            native.values.data(), native.lengths.data(), native.formats.data(), 1));
    if (!succeeded(owned.native()))
        throw_error(db_, owned.native(), which.name, commit);
    return owned;
}

rows connection::run(const contract::named_statement& which, const arguments& with,
                     commit_sent commit)
{
    if (!owned_)
        return run_lent(which, with, commit);
    const without_blocking here(db_);
    if (prepares_ && !is_prepared(which)) {
        if (PQsendPrepare(db_, name_of(which).c_str(), text_of(which).c_str(), 0, nullptr) == 0)
            fail(nullptr, which.name);
        const auto made = answer();
        if (!succeeded(made.native()))
            fail(made.native(), which.name);
        mark_prepared(which);
    }
    send({which, with});
    auto result = answer();
    if (!succeeded(result.native()))
        fail(result.native(), which.name, commit);
    return result;
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
        fail(nullptr, which.name);
}

std::vector<rows> connection::run_in_pipeline(const std::vector<step>& steps, commit_sent commit)
{
    // Each entry is an answer to wait for: a preparation, or a step.
    std::vector<std::pair<const contract::named_statement*, bool>> expected;
    const without_blocking here(db_);
    if (PQenterPipelineMode(db_) == 0)
        fail(nullptr, "pipeline");
    for (const auto& each : steps) {
        if (prepares_ && !is_prepared(each.which)) {
            const auto already = std::ranges::any_of(expected, [&](const auto& e) {
                return !e.second && e.first->index == each.which.index;
            });
            if (!already) {
                if (PQsendPrepare(db_, name_of(each.which).c_str(), text_of(each.which).c_str(), 0,
                                  nullptr) == 0)
                    fail(nullptr, each.which.name, commit);
                expected.emplace_back(&each.which, false);
            }
        }
        send(each);
        expected.emplace_back(&each.which, true);
    }
    if (PQpipelineSync(db_) == 0)
        fail(nullptr, "pipeline", commit);
    flush();

    std::vector<rows> results;
    results.reserve(steps.size());
    std::optional<rows> failed;
    std::string_view failed_name;
    for (const auto& [which, is_step] : expected) {
        auto* result = next_result();
        if (result == nullptr)
            fail(nullptr, which->name, commit); // the connection is gone
        rows owned(result);
        if (PQstatus(db_) != CONNECTION_OK)
            fail(result, which->name, commit);
        if (auto* end = next_result(); end != nullptr)
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
    PQclear(next_result()); // the synchronisation point
    if (PQexitPipelineMode(db_) == 0)
        fail(nullptr, "pipeline", commit);
    if (failed)
        fail(failed->native(), failed_name);
    return results;
}

rows connection::run_text(const std::string& sql)
{
    if (!owned_)
        return rows(PQexec(db_, sql.c_str()));
    const without_blocking here(db_);
    if (PQsendQuery(db_, sql.c_str()) == 0)
        return rows(nullptr);
    return answer();
}

void connection::execute(const std::string& sql, std::string_view during)
{
    const auto result = run_text(sql);
    if (!succeeded(result.native()))
        fail(result.native(), during);
}

std::optional<std::string> connection::ask(const std::string& sql, std::string_view during)
{
    const auto result = run_text(sql);
    if (!succeeded(result.native()))
        fail(result.native(), during);
    if (result.empty() || result.is_null(0, 0))
        return std::nullopt;
    return std::string(result.text(0, 0));
}

void connection::roll_back_quietly() noexcept
{
    const auto status = PQtransactionStatus(db_);
    if (PQpipelineStatus(db_) != PQ_PIPELINE_OFF || PQstatus(db_) != CONNECTION_OK ||
        status == PQTRANS_IDLE || status == PQTRANS_ACTIVE)
        return;
    try {
        (void)run_text("ROLLBACK");
    } catch (...) {
        // The transaction ends with the connection, which does not go back to its pool.
    }
}

std::unique_ptr<connection> connect_patiently(const location& where, connection::serving whom)
{
    return contract::open_patiently<connection>(
        [where, whom] { return std::make_unique<connection>(where, whom); });
}

} // namespace posthorn::postgres
