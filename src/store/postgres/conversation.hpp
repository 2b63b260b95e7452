// The statements of one transaction, in as few round trips as they allow.
#pragma once

#include "store/postgres/connection.hpp"

#include <vector>

namespace posthorn::postgres {

/// Begins the transaction together with its first statement: a transaction that asks nothing costs
/// nothing, and one that asks once costs one round trip before its commit.
class conversation {
public:
    /// `work` writes, too, but waits for a lock only briefly: it throws `contract::held_elsewhere`.
    enum class purpose { write, work, read, lent };

    conversation(connection& db, purpose why)
        : db_(db), begin_pending_(why != purpose::lent), why_(why)
    {}

    rows run(const contract::named_statement& which, const arguments& with = {});
    std::vector<rows> run_all(std::vector<step> steps);

    /// The last statements, and the commit, in one round trip. What is said next begins anew.
    std::vector<rows> run_all_and_commit(std::vector<step> steps,
                                         commit_sent commit = commit_sent::yes);

    /// One statement that commits by itself, in one round trip; behind a pooler it brings its
    /// settings along. `commit_sent::no` for what nobody has to ask about: it can be said again.
    /// Requires: no transaction is open.
    rows run_alone(const contract::named_statement& which, const arguments& with,
                   commit_sent commit = commit_sent::yes);

    /// Begins now.
    void begin();

    /// Begins now, because the caller is about to speak on the connection, whose names without a
    /// schema are looked for where the role wants it.
    void begin_for_caller();

    /// Gives the transaction up; what is said next begins anew.
    void start_over();

    void commit();
    void rollback();

    /// Whether a transaction is open; until then a statement on `db` commits by itself.
    [[nodiscard]] bool has_begun() const noexcept { return !begin_pending_; }

    [[nodiscard]] connection& db() const noexcept { return db_; }

private:
    std::vector<step> with_begin(std::vector<step> steps, std::size_t& added);

    connection& db_;
    void give_callers_path();
    void committed();

    bool begin_pending_;
    bool gave_callers_path_ = false; ///< in this transaction
    bool waits_as_callers_do_ = false;
    arguments patience_; ///< what it says about its time-outs
    purpose why_;
};

} // namespace posthorn::postgres
