// Coroutine handlers on Boost.Asio: thousands may wait at once on a few threads.
//
//     worker.handle("mail.*", [](ph::delivery_view d) -> boost::asio::awaitable<ph::outcome> {
//         co_await send(d);
//         co_return ph::done();
//     });
//
// What a handler enqueues belongs to what its message belongs to, on whichever thread it goes on
// after a `co_await` (correlation.hpp, asio_context.hpp).
//
// Link posthorn::asio. A handler that is asked to stop (its time is up, its lease is lost) is
// cancelled: what it awaits ends with `operation_aborted`, and the message is tried again.
#pragma once

#include <posthorn/asio_context.hpp>
#include <posthorn/handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace posthorn {
namespace runtime {

/// Where coroutines live: an executor, and what must stay for as long as somebody holds a copy of
/// it.
struct coroutine_home {
    boost::asio::any_io_executor executor;
    std::shared_ptr<void> kept = {};
};

/// The threads that a worker's coroutines share, unless they run on an executor of their own.
class coroutine_threads {
public:
    static constexpr int count = 2;

    coroutine_threads()
    {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([context = context_] { context->serve(); });
    }
    coroutine_threads(const coroutine_threads&) = delete;
    coroutine_threads& operator=(const coroutine_threads&) = delete;

    /// The last coroutine to end may be the last to need its threads: then it is one of them.
    ~coroutine_threads()
    {
        context_->stop();
        for (auto& each : threads_) {
            if (each.get_id() == std::this_thread::get_id())
                each.detach();
            else
                each.join();
        }
    }

    [[nodiscard]] coroutine_home home() const
    {
        return {.executor = context_->get_executor(), .kept = context_};
    }

private:
    /// Work that is left when its threads end is dropped then: it may be all that still holds an
    /// executor, and with it the context.
    class context : public boost::asio::io_context {
    public:
        context() : io_context(count) {}

        void serve()
        {
            run();
            if (--serving_ == 0)
                shutdown();
        }

    private:
        std::atomic<int> serving_ = count;
    };

    // Shared with the threads, one of which may outlive this, and with all copies of the executor.
    std::shared_ptr<context> context_ = std::make_shared<context>();
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stay_{
        context_->get_executor()};
    std::vector<std::thread> threads_;
};

/// Carries a stop request over to a coroutine. Lives as long as the coroutine does.
struct coroutine_leash {
    explicit coroutine_leash(coroutine_home at)
        : strand(context_executor(boost::asio::make_strand(std::move(at.executor)),
                                  carried_context::memory::latest, std::move(at.kept)))
    {}

    boost::asio::any_io_executor strand; ///< which carries the ambient correlation along
    boost::asio::cancellation_signal signal;
    std::optional<std::stop_callback<std::function<void()>>> on_stop;
};

template <typename Result, typename Begin>
void run_coroutine(coroutine_home at, const delivery_view& which, any_handler::ended ended,
                   Begin begin)
{
    auto leash = std::make_shared<coroutine_leash>(std::move(at));
    // The signal belongs to the strand: it is given there.
    leash->on_stop.emplace(which.stop_token(), [weak = std::weak_ptr(leash)] {
        if (const auto alive = weak.lock())
            boost::asio::post(alive->strand, [alive] {
                alive->signal.emit(boost::asio::cancellation_type::terminal);
            });
    });
    auto body = [begin = std::move(begin)]() mutable -> boost::asio::awaitable<outcome> {
        if constexpr (std::is_void_v<Result>) {
            co_await begin();
            co_return done();
        } else {
            co_return co_await begin();
        }
    };
    auto at_end = [leash, ended = std::move(ended)](const std::exception_ptr& thrown,
                                                    outcome said) {
        leash->on_stop.reset();
        ended(thrown ? any_handler::end(thrown) : any_handler::end(std::move(said)));
    };
    boost::asio::co_spawn(
        leash->strand, std::move(body),
        boost::asio::bind_cancellation_slot(leash->signal.slot(), std::move(at_end)));
}

/// Handlers that return an awaitable.
template <typename Result>
struct handler_of_result<boost::asio::awaitable<Result>> {
    static constexpr bool is_asynchronous = true;

    template <typename Function>
    static any_handler::asynchronous make(Function function, shared_services& services)
    {
        auto threads = services.get<coroutine_threads>();
        // The coroutine refers to the function it was made by: both stay until the last one ends.
        auto shared = std::make_shared<Function>(std::move(function));
        return [shared, threads](delivery_view which, any_handler::ended ended) {
            run_coroutine<Result>(threads->home(), which, std::move(ended),
                                  [shared, which]() -> boost::asio::awaitable<Result> {
                                      return std::invoke(*shared, which);
                                  });
        };
    }

    /// The value is decoded inside the coroutine, and lives as long as it does.
    template <typename Type, typename Function>
    static any_handler::asynchronous make_typed(Function function, shared_services& services)
    {
        return make(
            [shared = std::make_shared<Function>(std::move(function))](
                delivery_view which) -> boost::asio::awaitable<Result> {
                const Type value = decode<Type>(which.payload());
                if constexpr (std::invocable<Function&, const Type&, const delivery_view&>)
                    co_return co_await std::invoke(*shared, value, which);
                else
                    co_return co_await std::invoke(*shared, value);
            },
            services);
    }
};

} // namespace runtime
} // namespace posthorn
