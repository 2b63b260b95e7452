// Connections: how one is made, and what its session must look like before anything is done on it.
#include "store/mariadb/connection.hpp"

#include "store/contract/patience.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <unistd.h>

namespace posthorn::mariadb {
namespace {

unsigned whole_seconds(duration length)
{
    return static_cast<unsigned>(
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(length).count()));
}

const char* text_or_null(const std::string& text)
{
    return text.empty() ? nullptr : text.c_str();
}

// The client library initialises itself at its first use, which must not happen in two threads.
void initialise_client()
{
    static const int result = mysql_server_init(0, nullptr, nullptr);
    if (result != 0)
        throw error(error_code::internal, "the MariaDB client library does not initialise");
}

void set_encryption(MYSQL* db, const settings& with)
{
    using encryption = settings::encryption;
    if (with.tls == encryption::off)
        return;
    mysql_ssl_set(db, text_or_null(with.tls_key), text_or_null(with.tls_cert),
                  text_or_null(with.tls_ca), nullptr, nullptr);
    const my_bool yes = 1;
    if (with.tls != encryption::prefer)
        mysql_optionsv(db, MYSQL_OPT_SSL_ENFORCE, &yes);
    if (with.tls == encryption::verify)
        mysql_optionsv(db, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
}

// For one statement: with SKIP LOCKED the server takes no such setting.
const std::string without_waiting = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ";

// Whether a statement may meet a row that an application holds for long. All others follow one that
// has locked their rows; that they find an index's entry held by another worker is soon over.
bool meets_applications(const contract::named_statement& which)
{
    constexpr std::array<std::string_view, 4> others{"ensure_heads", "make_ready", "follow_inbound",
                                                     "release_waiters"};
    const auto has = [&](std::string_view words) { return which.text.find(words) != words.npos; };
    if (std::ranges::find(others, which.name) != others.end())
        return true;
    return (has("FOR UPDATE") && !has("SKIP LOCKED")) || has("LOCK IN SHARE MODE");
}

} // namespace

connection::connection(const settings& with)
    : owned_(true),
      prefix_(with.prefix),
      world_(with.environment),
      prepared_(sql::all.size()),
      hurried_(sql::all.size())
{
    initialise_client();
    db_ = mysql_init(nullptr);
    if (db_ == nullptr)
        throw std::bad_alloc();
    try {
        open(with);
        socket_ = fcntl(static_cast<int>(mysql_get_socket(db_)), F_DUPFD_CLOEXEC, 0);
        set_up(with);
    } catch (...) {
        mysql_close(db_);
        close_socket();
        throw;
    }
}

connection::connection(MYSQL* lent, const settings& with)
    : db_(lent),
      owned_(false),
      prefix_(with.prefix),
      world_(with.environment),
      prepared_(sql::all.size()),
      hurried_(sql::all.size())
{}

connection::~connection()
{
    prepared_.clear(); // before the connection that they belong to
    hurried_.clear();
    if (owned_)
        mysql_close(db_);
    close_socket();
}

void connection::close_socket() const noexcept
{
    if (socket_ >= 0)
        close(socket_);
}

void connection::open(const settings& with)
{
    const my_bool no = 0;
    const unsigned no_files = 0;
    const auto patience = whole_seconds(with.connect_timeout);
    // A server that is gone without a word is noticed, but never while it may still be working.
    const bool for_ever = with.statement_timeout == duration::zero();
    const auto silence =
        for_ever
            ? 0U
            : whole_seconds(with.lock_timeout + with.statement_timeout + std::chrono::seconds{10});
    mysql_optionsv(db_, MYSQL_OPT_RECONNECT, &no);
    mysql_optionsv(db_, MYSQL_OPT_LOCAL_INFILE, &no_files);
    mysql_optionsv(db_, MYSQL_OPT_CONNECT_TIMEOUT, &patience);
    mysql_optionsv(db_, MYSQL_OPT_READ_TIMEOUT, &silence);
    mysql_optionsv(db_, MYSQL_OPT_WRITE_TIMEOUT, &silence);
    mysql_optionsv(db_, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    set_encryption(db_, with);
    const bool by_socket = !with.socket.empty();
    if (!by_socket) {
        const auto tcp = static_cast<unsigned>(MYSQL_PROTOCOL_TCP);
        mysql_optionsv(db_, MYSQL_OPT_PROTOCOL, &tcp);
    }
    if (mysql_real_connect(db_, by_socket ? nullptr : with.host.c_str(), with.user.c_str(),
                           with.password.c_str(), with.database.c_str(), with.port,
                           text_or_null(with.socket), 0) == nullptr)
        throw_error(complaint_of(db_), "connect");
    // The client library goes on in the open when the server knows no encryption.
    using encryption = settings::encryption;
    if ((with.tls == encryption::require || with.tls == encryption::verify) &&
        mysql_get_ssl_cipher(db_) == nullptr)
        throw error(error_code::unavailable,
                    "MariaDB: the server does not encrypt its connections, and tls=require or "
                    "tls=verify asks for that");
}

// The default isolation locks gaps between rows, so that an idle claim would block enqueues. A
// server or proxy that ignores these settings would break promises: what matters is read back.
void connection::set_up(const settings& with)
{
    execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "set isolation");
    execute(fmt::format(
                "SET SESSION autocommit = 1, completion_type = 0, time_zone = '+00:00', "
                "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
                "innodb_lock_wait_timeout = {0}, lock_wait_timeout = {0}, max_statement_time = {1}",
                whole_seconds(with.lock_timeout),
                std::chrono::duration<double>(with.statement_timeout).count()),
            "set up session");
    const auto isolation =
        ask("SELECT variable_value FROM information_schema.session_variables "
            "WHERE variable_name IN ('TX_ISOLATION', 'TRANSACTION_ISOLATION') LIMIT 1",
            "read isolation");
    const auto mode = ask("SELECT @@SESSION.sql_mode", "read mode");
    if (isolation != "READ-COMMITTED" || !mode ||
        mode->find("STRICT_ALL_TABLES") == std::string::npos)
        throw error(error_code::unsupported,
                    fmt::format("MariaDB: the session has isolation '{}' and mode '{}' although "
                                "READ-COMMITTED and STRICT_ALL_TABLES were set; is there a proxy "
                                "that swallows SET?",
                                isolation.value_or(""), mode.value_or("")));
}

// Workers hold a lock for the rest of a short transaction. Who holds it for longer is an
// application, and may hold more: for a while no lock is asked for twice.
bool connection::asks_again(int asked)
{
    constexpr int asks_max = 20;
    const auto now = world_.clock->monotonic();
    if (patience_ != patience::none || now < hurries_until_ || !in_transaction())
        return false;
    if (asked == asks_max) {
        hurries_until_ = now + std::chrono::seconds{1};
        return false;
    }
    world_.clock->pause(std::chrono::milliseconds{1 + asked / 8});
    return true;
}

query connection::use(const contract::named_statement& which)
{
    const bool hurries = patience_ == patience::none && meets_applications(which);
    auto& prepared = (hurries ? hurried_ : prepared_)[static_cast<std::size_t>(which.index)];
    if (!prepared || !prepared->usable())
        prepared = std::make_unique<prepared_statement>(
            db_, socket_, (hurries ? without_waiting : "") + with_prefix(which.text), which.name);
    return query{*prepared, which};
}

void connection::execute(const std::string& sql, std::string_view during)
{
    const contract::socket_wait interruptible(socket_);
    if (mysql_real_query(db_, sql.data(), static_cast<unsigned long>(sql.size())) != 0)
        throw_error(complaint_of(db_), during);
    if (auto* rows = mysql_store_result(db_); rows != nullptr)
        mysql_free_result(rows);
}

std::optional<std::string> connection::ask(const std::string& sql, std::string_view during)
{
    const contract::socket_wait interruptible(socket_);
    if (mysql_real_query(db_, sql.data(), static_cast<unsigned long>(sql.size())) != 0)
        throw_error(complaint_of(db_), during);
    const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> rows(mysql_store_result(db_),
                                                                &mysql_free_result);
    if (!rows)
        throw_error(complaint_of(db_), during);
    auto* const row = mysql_fetch_row(rows.get());
    if (row == nullptr || row[0] == nullptr)
        return std::nullopt;
    return std::string(row[0], mysql_fetch_lengths(rows.get())[0]);
}

timestamp connection::now()
{
    if (const auto given = world_.clock->database_time())
        return *given;
    auto row = use(sql::database_time::text);
    row.step();
    return row.time(0);
}

std::string connection::with_prefix(std::string_view text) const
{
    return contract::with_prefix(text, prefix_);
}

// Every answer but an error says whether a transaction is open, also the answer to a statement that
// does nothing. The client library does not read it from the answer to a ping.
bool connection::in_transaction() const
{
    if (mysql_errno(db_) != 0) {
        const contract::socket_wait interruptible(socket_);
        mysql_query(db_, "DO 0");
    }
    return (db_->server_status & SERVER_STATUS_IN_TRANS) != 0 ||
           (db_->server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

void connection::require_transaction() const
{
    if (!in_transaction())
        throw error(error_code::no_transaction,
                    "this transaction has ended: it was committed or rolled back, if not by you, "
                    "then by MariaDB after an error");
}

std::size_t connection::statement_bytes_max()
{
    constexpr std::size_t at_most = std::size_t{8} << 20U;
    if (!packet_bytes_max_) {
        const auto said = ask("SELECT @@max_allowed_packet", "read packet size").value_or("0");
        packet_bytes_max_ = static_cast<std::size_t>(std::stoull(said));
    }
    return std::min(at_most, *packet_bytes_max_ / 2);
}

std::string json_list(std::span<const std::int64_t> numbers)
{
    return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::unique_ptr<connection> connect_patiently(const settings& with)
{
    return contract::open_patiently<connection>(
        [with] { return std::make_unique<connection>(with); });
}

} // namespace posthorn::mariadb
