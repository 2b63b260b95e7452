// A transaction is what every operation takes: one that
// Posthorn opened, or one that the caller lends.
#pragma once

#include <memory>
#include <vector>

namespace posthorn {

namespace core {
class drawn_numbers;
}

namespace contract {
class backend;
class session;
} // namespace contract

/// One database transaction. Owned ones (`store::begin`) roll back when destroyed without commit.
/// Borrowed ones (`sqlite::borrowed_transaction`) never begin, commit or close anything.
/// An owned one keeps its store open.
/// Threads: one at a time.
class transaction {
public:
    explicit transaction(std::unique_ptr<contract::session> session,
                         std::shared_ptr<contract::backend> of = nullptr);
    transaction(transaction&&) noexcept;
    transaction& operator=(transaction&&) noexcept;
    transaction(const transaction&) = delete;
    transaction& operator=(const transaction&) = delete;
    ~transaction();

    /// Makes everything done here permanent.
    /// Throws: `error`; when `in_doubt()`, the commit may have happened.
    /// Never call it on a borrowed one.
    void commit();

    /// Undoes everything done here. Never call it on a borrowed one.
    void rollback();

    /// The store's side of this transaction; for Posthorn's own components.
    [[nodiscard]] contract::session& session();

    /// Numbers of messages that exist only if this commits: an owned one gives them back to their
    /// scope when it is rolled back. What becomes of a borrowed one is unknown here.
    void depends_on_this(core::drawn_numbers numbers);

private:
    void give_back_numbers() noexcept;

    std::shared_ptr<contract::backend> of_; ///< goes after the session, which uses it
    std::unique_ptr<contract::session> session_;
    std::vector<core::drawn_numbers> numbers_; ///< in the order in which they were taken
};

} // namespace posthorn
