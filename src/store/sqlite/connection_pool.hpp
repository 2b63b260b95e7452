// Connections that threads take turns with.
#pragma once

#include "store/sqlite/connection.hpp"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace posthorn::sqlite {

/// Hands out up to `size` connections, opening them when first needed. Threads: safe.
class connection_pool {
public:
    connection_pool(std::size_t size, duration patience,
                    std::function<std::unique_ptr<connection>()> open);

    /// A connection for one user; it goes back to the pool when this does, from whatever thread.
    class turn {
    public:
        turn(connection_pool& pool, std::unique_ptr<connection> db)
            : pool_(&pool), db_(std::move(db))
        {}
        turn(turn&&) noexcept = default;
        turn& operator=(turn&&) = delete;
        ~turn();

        /// Closes the connection instead of giving it back: nobody should use it again.
        void discard();

        connection& operator*() const { return *db_; }
        connection* operator->() const { return db_.get(); }

    private:
        connection_pool* pool_;
        std::unique_ptr<connection> db_;
    };

    /// Throws: `error` with `busy` when no connection becomes free in time.
    [[nodiscard]] turn take();

private:
    void give_back(std::unique_ptr<connection> db);
    void forget_one();

    std::size_t size_;
    duration patience_;
    std::function<std::unique_ptr<connection>()> open_;
    std::mutex mutex_;
    std::condition_variable free_;
    std::vector<std::unique_ptr<connection>> idle_;
    std::size_t opened_ = 0;
};

} // namespace posthorn::sqlite
