// Taking turns. The wait is on the real clock: it is about threads, not about messages.
#include "store/sqlite/connection_pool.hpp"

#include <posthorn/error.hpp>

#include <utility>

namespace posthorn::sqlite {

connection_pool::connection_pool(std::size_t size, duration patience,
                                 std::function<std::unique_ptr<connection>()> open)
    : size_(size), patience_(patience), open_(std::move(open))
{}

connection_pool::turn connection_pool::take()
{
    std::unique_lock lock(mutex_);
    const bool got_one =
        free_.wait_for(lock, patience_, [&] { return !idle_.empty() || opened_ < size_; });
    if (!got_one)
        throw error(error_code::busy,
                    "another transaction of this process holds the store for too long; a thread "
                    "that has one "
                    "open must use it instead of opening a second one",
                    {.retryable = true});
    if (!idle_.empty()) {
        auto db = std::move(idle_.back());
        idle_.pop_back();
        return {*this, std::move(db)};
    }
    ++opened_;
    lock.unlock();
    try {
        return {*this, open_()};
    } catch (...) {
        forget_one();
        throw;
    }
}

void connection_pool::forget_one()
{
    {
        const std::lock_guard lock(mutex_);
        --opened_;
    }
    free_.notify_one();
}

void connection_pool::give_back(std::unique_ptr<connection> db)
{
    {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(db));
    }
    free_.notify_one();
}

void connection_pool::turn::discard()
{
    db_.reset();
    pool_->forget_one();
}

connection_pool::turn::~turn()
{
    if (db_)
        pool_->give_back(std::move(db_));
}

} // namespace posthorn::sqlite
