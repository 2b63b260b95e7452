// A thin layer over MariaDB's C client: connections,
// prepared statements, and errors with properties.
#pragma once

#include "store/contract/held_elsewhere.hpp"
#include "store/contract/named_statement.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <mysql.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace posthorn::mariadb {

/// What the server or the client library said.
struct complaint {
    unsigned code = 0;
    std::string words;
};

/// Throws what a complaint means. `during` names the statement.
[[noreturn]] void throw_error(const complaint& said, std::string_view during);

/// What a connection or a statement complains about.
[[nodiscard]] complaint complaint_of(MYSQL* db);
[[nodiscard]] complaint complaint_of(MYSQL_STMT* statement);

/// Whether a code means that the connection is gone.
[[nodiscard]] bool is_lost_connection(unsigned code) noexcept;

/// A statement as the server keeps it, with buffers for the rows it gives.
class prepared_statement {
public:
    /// `socket`: see `connection::socket`.
    prepared_statement(MYSQL* db, int socket, const std::string& text, std::string_view name);
    prepared_statement(const prepared_statement&) = delete;
    prepared_statement& operator=(const prepared_statement&) = delete;
    ~prepared_statement();

    /// False after an error among its rows: the client library would wait for the others for ever.
    [[nodiscard]] bool usable() const noexcept { return usable_; }

private:
    friend class query;

    struct column {
        bool is_number = false;
        std::int64_t number = 0;
        std::vector<char> bytes;
        unsigned long length = 0;
        my_bool null = 0;
        my_bool cut_short = 0;
    };

    MYSQL_STMT* handle_;
    int socket_;
    std::vector<column> columns_;
    std::vector<MYSQL_BIND> results_;
    bool usable_ = true;
};

/// One execution of a prepared statement, on one row of parameters or on many at once.
/// Text and bytes are bound by reference: they must outlive the execution. What is not bound is
/// NULL.
class query {
public:
    query(prepared_statement& prepared, const contract::named_statement& which);
    query(const query&) = delete;
    query& operator=(const query&) = delete;
    ~query();

    query& bind(int number, std::int64_t value);
    query& bind(int number, timestamp value)
    {
        return bind(number, std::int64_t{value.time_since_epoch().count()});
    }
    query& bind(int number, fence value) { return bind(number, static_cast<std::int64_t>(value)); }
    query& bind(int number, const std::optional<timestamp>& value);
    query& bind(int number, const message_id& id) { return bind_bytes(number, bytes_of(id)); }
    query& bind_bytes(int number, std::string_view value);
    query& bind_bytes_or_null(int number, std::string_view value);

    /// ASCII text that the server is to parse, such as a list of numbers in JSON.
    query& bind_ascii(int number, std::string_view value);

    /// What was bound is a whole row; further values belong to the next one. Rows for a statement
    /// that gives none are sent in pieces that every server takes; any other one's caller cuts
    /// them.
    void end_row();

    /// Executes at the first call. True while there is another row.
    bool step();

    /// Executes a statement that gives no rows. Returns: how many rows it changed.
    std::int64_t run();

    [[nodiscard]] bool is_null(int column) const;
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] timestamp time(int column) const { return timestamp{duration{integer(column)}}; }
    [[nodiscard]] std::optional<timestamp> time_or_none(int column) const;
    [[nodiscard]] std::string_view text(
        int column) const; ///< holds until the next step; NULL is empty
    [[nodiscard]] message_id id(int column) const;

    [[nodiscard]] static std::string_view bytes_of(const message_id& id);

private:
    struct ascii {
        std::string_view text;
    };
    using parameter = std::variant<std::monostate, std::int64_t, std::string_view, ascii>;
    using parameter_row = std::vector<parameter>;

    void execute();
    void execute_one(const parameter_row& row);
    void execute_all();
    void execute_many(std::span<const parameter_row> all);
    [[nodiscard]] std::size_t size_of_piece(std::span<const parameter_row> rest) const;
    void prepare_columns();
    [[noreturn]] void fail() const;
    [[noreturn]] void fail_among_rows();

    prepared_statement& prepared_;
    const contract::named_statement& which_;
    parameter_row current_;
    std::vector<parameter_row> finished_rows_;
    bool executed_ = false;
    std::int64_t changed_ = 0; ///< rows, by the pieces before the last
};

/// How to reach a server, and how to behave there.
struct settings {
    std::string host = "127.0.0.1";
    unsigned port = 3306;
    std::string socket;
    std::string user;
    std::string password;
    std::string database;
    std::string prefix = "posthorn_";
    enum class encryption { off, prefer, require, verify } tls = encryption::prefer;
    std::string tls_ca;
    std::string tls_cert;
    std::string tls_key;
    duration connect_timeout = std::chrono::seconds{5};
    duration lock_timeout = std::chrono::seconds{5};
    duration statement_timeout = std::chrono::seconds{30};
    std::size_t pool = 8;
    posthorn::environment environment;
};

/// A connection with its prepared statements, owned or lent by the caller. Threads: one at a time.
class connection {
public:
    /// Connects, sets the session up, and verifies that the server took it.
    explicit connection(const settings& with);

    /// Uses the caller's connection, changing nothing about it.
    connection(MYSQL* lent, const settings& with);

    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection();

    /// The statement, prepared once and kept.
    [[nodiscard]] query use(const contract::named_statement& which);

    /// What a statement does when another transaction holds a row that it needs.
    enum class patience { lock_timeout, none };

    void wait_for_locks(patience how) { patience_ = how; }
    [[nodiscard]] patience waits_for_locks() const noexcept { return patience_; }

    /// While one lives, statements that take locks do not wait for them.
    class no_waiting {
    public:
        explicit no_waiting(connection& on)
            : on_(on), before_(std::exchange(on.patience_, patience::none))
        {}
        no_waiting(const no_waiting&) = delete;
        no_waiting& operator=(const no_waiting&) = delete;
        ~no_waiting() { on_.patience_ = before_; }

    private:
        connection& on_;
        patience before_;
    };

    /// Runs `work`, which takes a lock, a few times over when another worker has it for a moment.
    /// Only where statements do not wait by themselves.
    template <typename Work>
    auto insist(Work&& work);

    /// Runs SQL text as it is; `during` names it in errors.
    void execute(const std::string& sql, std::string_view during);

    /// The first column of the first row of SQL text, if there is a row and it is not NULL.
    [[nodiscard]] std::optional<std::string> ask(const std::string& sql, std::string_view during);

    /// The time as the database sees it, unless a test says otherwise.
    [[nodiscard]] timestamp now();

    [[nodiscard]] std::string with_prefix(std::string_view text) const;
    [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
    [[nodiscard]] const posthorn::environment& environment() const noexcept { return world_; }

    [[nodiscard]] MYSQL* handle() const noexcept { return db_; }

    /// What ends a call that waits for the server when it is shut down; less than 0: nothing does.
    /// It is a number of our own for the client library's socket, which that closes when it likes.
    [[nodiscard]] int socket() const noexcept { return socket_; }

    /// Whether what is executed now can be rolled back. After an error, which may have ended the
    /// transaction and does not say so, the server is asked.
    [[nodiscard]] bool in_transaction() const;

    /// For a transaction that was open when it was last heard of.
    /// Throws: `error` with `no_transaction` if it is not any more.
    void require_transaction() const;

    /// Bytes that one statement may carry, with some room for what surrounds them.
    [[nodiscard]] std::size_t statement_bytes_max();

private:
    void open(const settings& with);
    void set_up(const settings& with);
    void close_socket() const noexcept;

    /// Whether it is worth while to ask for a lock once more.
    [[nodiscard]] bool asks_again(int asked);

    MYSQL* db_ = nullptr;
    bool owned_;
    int socket_ = -1;
    patience patience_ = patience::lock_timeout;
    monotonic_time hurries_until_{};
    std::string prefix_;
    posthorn::environment world_;
    std::vector<std::unique_ptr<prepared_statement>> prepared_;
    std::vector<std::unique_ptr<prepared_statement>> hurried_; ///< that do not wait for locks
    std::optional<std::size_t> packet_bytes_max_;
};

template <typename Work>
auto connection::insist(Work&& work)
{
    for (int asked = 1;; ++asked) {
        try {
            return work();
        } catch (const contract::held_elsewhere&) {
            if (!asks_again(asked))
                throw;
        }
    }
}

/// A connection of one's own; a worker that ends does not wait for it.
[[nodiscard]] std::unique_ptr<connection> connect_patiently(const settings& with);

/// A caller's transaction may have an old view of the database; ours look anew each time.
enum class view { newest, may_be_old };

/// Numbers as a JSON array: how a statement takes a list of any length.
[[nodiscard]] std::string json_list(std::span<const std::int64_t> numbers);

} // namespace posthorn::mariadb
