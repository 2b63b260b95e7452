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
    /// Every copy keeps `home` alive, where `inner` lives: somebody who lets a coroutine go on may
    /// still be about to leave its executor when the coroutine, and with it the worker, has ended.
    context_executor(boost::asio::any_io_executor inner, carried_context::memory which,
                     std::shared_ptr<void> home = {})
        : parts_(std::make_shared<const parts>(
              std::move(home), std::move(inner),
              std::make_shared<carried_context>(correlation_scope::current(), which)))
    {}

    template <typename Property>
    requires boost::asio::can_query<const boost::asio::any_io_executor&,
                                    Property>::value decltype(auto)
    query(const Property& which) const
    {
        return boost::asio::query(parts_->inner, which);
    }

    template <typename Property>
    requires boost::asio::can_require<const boost::asio::any_io_executor&, Property>::value auto
    require(const Property& which) const
    {
        return with<Property>(boost::asio::require(parts_->inner, which));
    }

    template <typename Property>
    requires boost::asio::can_prefer<const boost::asio::any_io_executor&, Property>::value auto
    prefer(const Property& which) const
    {
        return with<Property>(boost::asio::prefer(parts_->inner, which));
    }

    template <typename Function>
    void execute(Function&& function) const
    {
        // Whoever is inside passes on what is ambient there. From outside, where something quite
        // different may be ambient, only what was remembered counts.
        parts_->inner.execute(
            [shared = parts_->shared, known = parts_->knows || is_inside(), begun_in = begun_here(),
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
        return a.parts_ == b.parts_ ||
               (a.parts_->shared == b.parts_->shared && a.parts_->inner == b.parts_->inner);
    }

private:
    struct parts {
        parts(std::shared_ptr<void> at, boost::asio::any_io_executor on,
              std::shared_ptr<carried_context> by, std::shared_ptr<correlation> in = {},
              bool is_known = false)
            : home(std::move(at)),
              inner(std::move(on)),
              shared(std::move(by)),
              begun_in(std::move(in)),
              knows(is_known)
        {}

        std::shared_ptr<void> home; // shared with all copies; first, as it must go last
        boost::asio::any_io_executor inner;
        std::shared_ptr<carried_context> shared; // by all copies of the executor
        std::shared_ptr<correlation> begun_in;   // shared with the scope it came from
        bool knows;                              ///< where it was begun, which may be nowhere
    };

    explicit context_executor(std::shared_ptr<const parts> from) : parts_(std::move(from)) {}

    [[nodiscard]] bool is_inside() const noexcept
    {
        return core::ambient_visit::carrier() == parts_->shared.get();
    }
    [[nodiscard]] std::shared_ptr<correlation> begun_here() const
    {
        return !parts_->knows && is_inside() ? correlation_scope::current() : parts_->begun_in;
    }

    template <typename Property>
    [[nodiscard]] context_executor with(boost::asio::any_io_executor inner) const
    {
        using tracked = boost::asio::execution::outstanding_work_t::tracked_t;
        using preferably = boost::asio::execution::prefer_only<tracked>; // what `any` executors ask
        constexpr bool begins =
            std::same_as<Property, tracked> || std::same_as<Property, preferably>;
        if (begins && is_inside())
            return context_executor(std::make_shared<const parts>(
                parts_->home, std::move(inner), parts_->shared, begun_here(), true));
        return context_executor(std::make_shared<const parts>(
            parts_->home, std::move(inner), parts_->shared, parts_->begun_in, parts_->knows));
    }

    // Shared, so that a copy is small enough for Asio to keep without an allocation of its own.
    std::shared_ptr<const parts> parts_;
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
