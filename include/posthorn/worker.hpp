// A worker: claims messages, runs their handlers, and settles what they say.
#pragma once

#include <posthorn/handler.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/serving.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/store.hpp>
#include <posthorn/stores.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn {

/// Runs around each handler; calls `next` to go on, and may change what it says. Coroutine handlers
/// have only the hooks below.
using middleware =
    std::function<outcome(const delivery_view&, const std::function<outcome()>& next)>;

/// Told what happens to each delivery, on the thread where it happens and in the correlation scope
/// of its message. Must not throw.
struct lifecycle {
    std::function<void(const delivery_view&)> starting = {};
    std::function<void(const delivery_view&, const outcome&, duration)> ended = {};
    std::function<void(const delivery_view&, settled_as)> settled = {};
};

struct worker_options {
    std::string name = {}; ///< for people to read; the host's name and process id unless given
    std::size_t concurrency = 10; ///< handlers that run at once

    /// How long the worker may be silent before others take its messages. Renewed while handlers
    /// run, so it need not be as long as they take.
    duration lease = std::chrono::seconds{30};

    /// How long handlers may go on after a stop. When a quarter of it is left they are asked to
    /// end.
    duration grace = std::chrono::seconds{30};

    /// An idle worker looks at least this often, whether or not its bell has rung.
    duration look_at_least_every = std::chrono::seconds{10};

    /// The payloads that may be in memory at once, about; one is always allowed.
    std::size_t payload_bytes_max = std::size_t{32} << 20U;

    outbox_options outbox = {};          ///< retries, dead letters, settlement hooks
    handler_options defaults = {};       ///< for handlers that are given none of their own
    std::vector<middleware> around = {}; ///< the first one is the outermost
    lifecycle on = {};

    /// What an exception of a handler means, of coroutine handlers and middleware too. Unless this
    /// is given `permanent_failure` fails the message, and all others try it again; what this
    /// throws itself is judged in the same way. It is not asked when it is unknown whether the
    /// transaction of a handler was committed: then the message is tried again.
    std::function<outcome(const std::exception_ptr&)> classify = {};

    /// Whether the store's log is told of the worker's start and end, and of what becomes of each
    /// message. False where `on` tells that already; troubles with the store are logged anyway.
    bool log_activity = true;
};

struct run_options {
    bool until_empty = false;     ///< end when nothing is due any more
    std::size_t limit = SIZE_MAX; ///< end after this many deliveries
};

/// What a run has done, in deliveries.
struct run_report {
    std::size_t done = 0;
    std::size_t retrying = 0;
    std::size_t dead = 0;
    std::size_t released = 0; ///< given back unharmed
    std::size_t parked = 0;
    std::size_t lost = 0;         ///< handled, but somebody else had taken them over
    std::size_t left_running = 0; ///< handlers that did not end within the grace period

    [[nodiscard]] std::size_t handled() const noexcept { return done + retrying + dead + lost; }

    run_report& operator+=(const run_report& more) noexcept
    {
        done += more.done;
        retrying += more.retrying;
        dead += more.dead;
        released += more.released;
        parked += more.parked;
        lost += more.lost;
        left_running += more.left_running;
        return *this;
    }
};

/// What a worker is doing now.
struct worker_status {
    std::size_t running = 0;
    std::size_t threads = 0;
    run_report so_far = {};
};

/// Threads: register handlers first, then run; `run` from one thread at a time.
class worker {
public:
    explicit worker(store where, worker_options options = {});

    /// One worker for many stores: the same handlers, limits and outcomes, and a few threads for
    /// all of them. A store that fails, hangs or vanishes costs only itself.
    explicit worker(store_provider from, worker_options options = {}, serving_options how = {});
    worker(worker&&) noexcept;
    worker& operator=(worker&&) noexcept;
    ~worker();

    /// Handles a topic, or with a closing `*` all that start so. An exact topic comes before a
    /// wildcard, a longer wildcard before a shorter one, and all before predicates.
    /// Throws: `error` with `invalid_argument` when the same pattern is handled already.
    template <typename Function>
    worker& handle(std::string_view pattern, Function function)
    {
        return handle(pattern, std::move(function), defaults());
    }
    template <typename Function>
    worker& handle(std::string_view pattern, Function function, const handler_options& how)
    {
        add({std::string(pattern)}, runtime::make_handler(std::move(function), services()), how);
        return *this;
    }

    /// Handles several topics as one: its limits hold for all of them together.
    template <typename Function>
    worker& handle(const std::vector<std::string>& patterns, Function function,
                   const handler_options& how)
    {
        add(patterns, runtime::make_handler(std::move(function), services()), how);
        return *this;
    }

    /// Handles what a predicate accepts; the predicate that was registered first wins.
    template <typename Function>
    worker& handle_if(std::function<bool(std::string_view topic)> accepts, Function function)
    {
        return handle_if(std::move(accepts), std::move(function), defaults());
    }
    template <typename Function>
    worker& handle_if(std::function<bool(std::string_view topic)> accepts, Function function,
                      const handler_options& how)
    {
        add_if(std::move(accepts), runtime::make_handler(std::move(function), services()), how);
        return *this;
    }

    /// Handles a typed message.
    template <typed_message Type, typename Function>
    worker& handle(Function function)
    {
        return handle<Type>(std::move(function), defaults());
    }
    template <typed_message Type, typename Function>
    worker& handle(Function function, const handler_options& how)
    {
        add({std::string(message_type<Type>::topic)},
            runtime::make_typed_handler<Type>(std::move(function), services()), how);
        return *this;
    }

    /// Works until it is told to stop, then lets running handlers end. What the database refuses
    /// is tried again for as long as it takes; nothing is thrown for a database that is away,
    /// unless it is to run `until_empty` and has tried three times.
    run_report run(const stop_request& stop, const run_options& how = {});

    /// One pass, for hosts that call on a timer: handles up to `limit` messages that are due. A
    /// stop ends it early, as it ends `run`; the report tells what was done until then.
    /// Throws: what the database said, if it stayed away.
    run_report process_outbox(std::size_t limit = 1'000, const stop_request& stop = {});

    /// Serves the one store whose turn it is, on this thread: handles up to `batch` messages of it.
    /// A store that fails is logged, and has no turn for a while. A stop ends it early, as it ends
    /// `run`. See `poll` in polling.hpp.
    /// Returns: how many were handled.
    std::size_t run_once(std::size_t batch = 100, const stop_request& stop = {});

    [[nodiscard]] worker_status status() const;

    /// What is known of each store while `run` runs.
    [[nodiscard]] std::vector<store_status> stores() const;

    /// How many stores are listed now.
    [[nodiscard]] std::size_t stores_known();

    [[nodiscard]] const worker_options& options() const noexcept;
    [[nodiscard]] const posthorn::environment& environment() const noexcept;

private:
    struct state;

    [[nodiscard]] const handler_options& defaults() const;
    [[nodiscard]] runtime::shared_services& services();
    void add(const std::vector<std::string>& patterns, const runtime::any_handler& handler,
             const handler_options& how);
    void add_if(std::function<bool(std::string_view)> accepts, runtime::any_handler handler,
                const handler_options& how);

    std::unique_ptr<state> state_;
};

} // namespace posthorn
