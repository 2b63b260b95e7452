// A thin layer over libpq: connections, prepared statements, many statements in one round trip, and
// errors with properties.
#pragma once

#include "store/contract/named_statement.hpp"
#include "store/postgres/arguments.hpp"
#include "store/postgres/location.hpp"
#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <libpq-fe.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::postgres {

/// What a failure means for a commit that was on its way.
enum class commit_sent : bool { no, yes };

/// Throws what a failed result means. `during` names the statement; `instead` are words for what
/// libpq does not know.
[[noreturn]] void throw_error(PGconn* db, const PGresult* failed, std::string_view during,
                              commit_sent commit = commit_sent::no, std::string_view instead = {});

/// The rows that a statement gave, in PostgreSQL's binary format.
class rows {
public:
    explicit rows(PGresult* result) : result_(result) {}

    [[nodiscard]] int size() const { return PQntuples(result_.get()); }
    [[nodiscard]] bool empty() const { return size() == 0; }
    [[nodiscard]] std::size_t changed() const; ///< how many rows the statement wrote

    [[nodiscard]] bool is_null(int row, int column) const;
    [[nodiscard]] std::int64_t integer(int row, int column) const; ///< of any width; NULL is 0
    [[nodiscard]] bool yes(int row, int column) const { return integer(row, column) != 0; }
    [[nodiscard]] std::string_view text(int row, int column) const; ///< NULL is empty
    [[nodiscard]] message_id id(int row, int column) const;
    [[nodiscard]] timestamp time(int row, int column) const
    {
        return timestamp{duration{integer(row, column)}};
    }
    /// NULL and 0 are no time.
    [[nodiscard]] std::optional<timestamp> time_or_none(int row, int column) const;

    [[nodiscard]] const PGresult* native() const noexcept { return result_.get(); }

private:
    struct clearing {
        void operator()(PGresult* result) const { PQclear(result); }
    };
    std::unique_ptr<PGresult, clearing> result_;
};

/// One statement of several that travel together.
struct step {
    const contract::named_statement& which;
    const arguments& with;
};

/// A connection with its prepared statements, owned or lent by the caller. Threads: one at a time.
class connection {
public:
    /// Whose statements it runs: those of one schema, which it prepares; or of many in turn, whose
    /// statements would fill the server's memory, so it prepares none.
    enum class serving { one_schema, many_schemas };

    /// Connects. Throws: `error`.
    explicit connection(const location& where, serving whom = serving::one_schema);

    /// Uses the caller's connection, changing nothing about it.
    connection(PGconn* lent, std::string prefix);

    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection();

    /// From now on the statements are about this schema. Requires: it serves many.
    void serve(const std::string& prefix);

    rows run(const contract::named_statement& which, const arguments& with = {},
             commit_sent commit = commit_sent::no);

    /// Several statements in one round trip; the first error ends them all.
    std::vector<rows> run_all(const std::vector<step>& steps, commit_sent commit = commit_sent::no);

    /// Runs SQL text as it is; `during` names it in errors. For schema work.
    void execute(const std::string& sql, std::string_view during);

    /// Statements may take as long as they need, whatever the URL says. For migrations.
    void wait_for_ever() noexcept { silence_max_ = duration::zero(); }

    /// Ends the transaction that a failure has left open, if there is one and a server that
    /// answers.
    void roll_back_quietly() noexcept;

    /// The one value that some SQL text asks for, as text; nothing if there is no row or it is
    /// NULL.
    [[nodiscard]] std::optional<std::string> ask(const std::string& sql, std::string_view during);

    [[nodiscard]] std::string with_prefix(std::string_view text) const;
    [[nodiscard]] PGconn* handle() const noexcept { return db_; }
    [[nodiscard]] bool in_transaction() const;

    /// False: the server has closed it while nobody looked, or it is broken.
    [[nodiscard]] bool is_alive();

    /// What a transaction sets for itself where a pooler shares the session with others; null where
    /// the session is ours.
    [[nodiscard]] const arguments* local_settings() const noexcept
    {
        return local_settings_ ? &*local_settings_ : nullptr;
    }

    /// As the URL says; 0: none.
    [[nodiscard]] std::chrono::milliseconds lock_timeout() const noexcept { return lock_timeout_; }

    /// How long a transaction in a hurry waits for a lock: hardly at all for a while after it has
    /// waited for one in vain.
    [[nodiscard]] std::chrono::milliseconds brief_wait() const;

    std::optional<std::string> known_worker; ///< whose name this session has written

    /// Whether names without a schema are looked for where the role wants it; else nowhere but in
    /// the server's own catalog, so that nothing there can be mistaken for it.
    bool has_callers_path = false;

private:
    [[nodiscard]] std::string name_of(const contract::named_statement& which) const;
    [[nodiscard]] const std::string& text_of(const contract::named_statement& which);
    [[nodiscard]] bool is_prepared(const contract::named_statement& which) const;
    void mark_prepared(const contract::named_statement& which);
    [[noreturn]] void fail(const PGresult* failed, std::string_view during,
                           commit_sent commit = commit_sent::no);
    void send(const step& what);
    void flush();
    PGresult* next_result();
    rows answer();
    bool wait_for(short events);
    rows run_lent(const contract::named_statement& which, const arguments& with,
                  commit_sent commit);
    rows run_text(const std::string& sql);
    std::vector<rows> run_in_pipeline(const std::vector<step>& steps, commit_sent commit);

    PGconn* db_ = nullptr;
    bool owned_;
    bool prepares_;
    duration silence_max_{};  ///< a server that says nothing for so long is given up; 0: never
    bool was_silent_ = false; ///< and it was
    std::chrono::milliseconds lock_timeout_{};                     ///< 0: none
    std::optional<std::chrono::steady_clock::time_point> held_at_; ///< a lock, for too long
    std::string prefix_;
    std::optional<arguments> local_settings_;
    std::vector<bool> prepared_;
    std::vector<std::string> texts_; ///< with the prefix put in, by the statement's index
};

/// A connection of one's own; a worker that ends does not wait for it.
[[nodiscard]] std::unique_ptr<connection> connect_patiently(
    const location& where, connection::serving whom = connection::serving::one_schema);

} // namespace posthorn::postgres
