// What carries the ambient correlation through Boost.Asio: an executor that wraps another one.
//
// A coroutine goes on wherever its executor runs it, on any of many threads, and others run there
// in between. So each piece of work that goes through this executor finds on its thread what was
// ambient where it was begun, and leaves the thread as it was. Asio tells an executor when an
// operation begins (it asks for `outstanding_work.tracked`): that is the moment to remember.
#pragma once

#include <posthorn/correlation.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>

#include <concepts>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

namespace posthorn {
namespace runtime {

/// What is ambient for work of which nobody knows where it was begun.
class carried_context {
public:
    enum class memory { first, latest };

    carried_context(std::shared_ptr<correlation> what, memory which)
        : what_(std::move(what)), which_(which)
    {}

    [[nodiscard]] std::shared_ptr<correlation> what() const
    {
        const std::lock_guard lock(mutex_);
        return what_;
    }

    /// A coroutine that is suspended inside a scope of its own wakes up inside it.
    void remember(std::shared_ptr<correlation> now)
    {
        if (which_ == memory::first)
            return;
        const std::lock_guard lock(mutex_);
        what_.swap(now);
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<correlation> what_; // shared with scopes
    memory which_;
};

/// Runs everything on another executor, in the context where it was begun.
class context_executor {
public:
    context_executor(boost::asio::any_io_executor inner, carried_context::memory which)
        : inner_(std::move(inner)),
          shared_(std::make_shared<carried_context>(correlation_scope::current(), which))
    {}

    template <typename Property>
    requires boost::asio::can_query<const boost::asio::any_io_executor&,
                                    Property>::value decltype(auto)
    query(const Property& which) const
    {
        return boost::asio::query(inner_, which);
    }

    template <typename Property>
    requires boost::asio::can_require<const boost::asio::any_io_executor&, Property>::value
        [[nodiscard]] context_executor
        require(const Property& which) const
    {
        return with<Property>(boost::asio::require(inner_, which));
    }

    template <typename Property>
    requires boost::asio::can_prefer<const boost::asio::any_io_executor&, Property>::value
        [[nodiscard]] context_executor
        prefer(const Property& which) const
    {
        return with<Property>(boost::asio::prefer(inner_, which));
    }

    template <typename Function>
    void execute(Function&& function) const
    {
        // Whoever is inside passes on what is ambient there. From outside, where something quite
        // different may be ambient, only what was remembered counts.
        const bool inside = core::ambient_visit::carrier() == shared_.get();
        inner_.execute(
            [shared = shared_, known = knows_ || inside,
             begun_in = !knows_ && inside ? correlation_scope::current() : begun_in_,
             function = std::decay_t<Function>(std::forward<Function>(function))]() mutable {
                auto what = known ? std::move(begun_in) : shared->what();
                const auto before = what;
                const core::ambient_visit visit(std::move(what), shared.get());
                std::move(function)();
                // Work that changed nothing has nothing to say: it may have run around other work
                // that did.
                if (auto after = correlation_scope::current(); after != before)
                    shared->remember(std::move(after));
            });
    }

    friend bool operator==(const context_executor& a, const context_executor& b) noexcept
    {
        return a.shared_ == b.shared_ && a.inner_ == b.inner_;
    }

private:
    template <typename Property>
    [[nodiscard]] context_executor with(boost::asio::any_io_executor inner) const
    {
        auto result = *this;
        result.inner_ = std::move(inner);
        using tracked = boost::asio::execution::outstanding_work_t::tracked_t;
        using preferably = boost::asio::execution::prefer_only<tracked>; // what `any` executors ask
        if constexpr (std::same_as<Property, tracked> || std::same_as<Property, preferably>) {
            if (!knows_ && core::ambient_visit::carrier() == shared_.get()) {
                result.begun_in_ = correlation_scope::current();
                result.knows_ = true;
            }
        }
        return result;
    }

    boost::asio::any_io_executor inner_;
    std::shared_ptr<carried_context> shared_; // by all copies
    std::shared_ptr<correlation> begun_in_;   // shared with the scope it came from
    bool knows_ = false;                      ///< where it was begun, which may be nowhere
};

} // namespace runtime

/// An executor on which everything finds what is ambient now: for work that a handler spawns on, or
/// moves to, an executor of its own.
///     co_await co_spawn(bind_context(pool.get_executor()), resize(image), use_awaitable);
template <typename Executor>
    requires std::convertible_to<Executor, boost::asio::any_io_executor>
[[nodiscard]] boost::asio::any_io_executor bind_context(Executor&& executor)
{
    return runtime::context_executor(std::forward<Executor>(executor),
                                     runtime::carried_context::memory::first);
}

} // namespace posthorn
