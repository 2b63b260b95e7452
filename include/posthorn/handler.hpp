// Handlers: what an application does with a message, in the form that suits it.
//
// The form is chosen by the handler's signature:
//     outcome f(const delivery_view&)            runs on a thread of the worker
//     outcome f(transactional_delivery<>&)       runs in the transaction that acknowledges it
//     outcome f(const order_placed&)             the same two for typed messages (message_type.hpp)
//     outcome f(transactional_delivery<order_placed>&)
//     awaitable<outcome> f(delivery_view)        a coroutine, with <posthorn/asio.hpp>
// Instead of `outcome` they may return nothing, which means done.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/message_type.hpp>
#include <posthorn/retry.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>

namespace posthorn {

namespace runtime {
struct running_delivery;
}

/// Thrown by a handler: trying again would not help. The message becomes a dead letter.
class permanent_failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The message that is being handled. Cheap to copy; copies stay valid after the handler.
/// Threads: safe to use from any.
class delivery_view {
public:
    explicit delivery_view(std::shared_ptr<const runtime::running_delivery> running);

    [[nodiscard]] const delivery& message() const noexcept;

    [[nodiscard]] message_id id() const noexcept { return message().receipt.id; }
    [[nodiscard]] const std::string& topic() const noexcept { return message().topic; }
    [[nodiscard]] const std::string& payload() const noexcept { return message().payload; }
    [[nodiscard]] const posthorn::headers& headers() const noexcept { return message().headers; }
    [[nodiscard]] int attempt() const noexcept { return message().attempt; } ///< 1 for the first

    /// The name of its store, for a worker with many; else empty.
    [[nodiscard]] const std::string& store() const noexcept;

    /// Asks the handler to end early: its time is up, its lease is lost, or the worker must go.
    [[nodiscard]] std::stop_token stop_token() const noexcept;

    /// Whether somebody else may be handling the message by now: whatever is done, is not recorded.
    [[nodiscard]] bool is_lost() const noexcept;

    /// When the handler's time is up, if it has a time-out.
    [[nodiscard]] std::optional<monotonic_time> deadline() const noexcept;

private:
    std::shared_ptr<const runtime::running_delivery> running_;
};

/// A message and the transaction that acknowledges it: what is done in it takes effect exactly
/// once. It commits when the handler says done; every other outcome rolls it back.
/// Ends before the handler's return: keep no reference to it.
template <typename Type = void>
class transactional_delivery;

template <>
class transactional_delivery<void> : public delivery_view {
public:
    transactional_delivery(const delivery_view& which, transaction& tx)
        : delivery_view(which), tx_(&tx)
    {}

    [[nodiscard]] transaction& tx() const noexcept { return *tx_; }

private:
    transaction* tx_;
};

template <typename Type>
class transactional_delivery : public transactional_delivery<void> {
public:
    transactional_delivery(const delivery_view& which, transaction& tx, const Type& value)
        : transactional_delivery<void>(which, tx), value_(&value)
    {}

    [[nodiscard]] const Type& value() const noexcept { return *value_; }

private:
    const Type* value_;
};

/// What a handler may be given beside its messages.
struct handler_options {
    /// After this long the handler is asked to stop; what it then says still counts.
    std::optional<duration> timeout = {};

    /// How long after that the worker goes on holding the message for a handler that does not
    /// stop. Then it lets the lease run out, so that the message is tried again elsewhere while
    /// the old handler may still be running. Unless given, it is held for as long as it runs.
    std::optional<duration> abandon_after = {};

    /// How many may run at once in this worker; 0: as many as the worker's own limit allows.
    std::size_t concurrency = 0;

    /// Payloads of messages that it has in hand: when there are so many bytes nothing more begins.
    /// 0: as many as the worker's own limit allows.
    std::size_t payload_bytes_max = 0;

    /// How many of one group may run at once in this worker, and which group a message is of.
    std::size_t per_key = 0;
    std::function<std::string(const delivery&)> key = {};

    /// When its messages are tried again, and whether a dead one blocks its ordering key. These
    /// come before the rules of `worker_options::outbox`.
    failure_rules failures = {};
};

namespace runtime {

/// A handler without its signature.
struct any_handler {
    using plain = std::function<outcome(const delivery_view&)>;
    using transactional = std::function<outcome(const delivery_view&, transaction&)>;

    /// Begins, and calls `ended` exactly once, from any thread, with what the handler said or
    /// threw. Must not throw.
    using end = std::variant<outcome, std::exception_ptr>;
    using ended = std::function<void(end)>;
    using asynchronous = std::function<void(delivery_view, ended)>;

    std::variant<plain, transactional, asynchronous> run;

    /// It has nothing to finish of its own: when the worker drains it is asked to end at once.
    bool only_waits = false;
};

/// What the exception says about the message: `permanent_failure` fails it, all others are tried
/// again. For use inside a catch block.
[[nodiscard]] outcome outcome_of_exception(const std::exception_ptr& thrown);

template <typename Function, typename... Arguments>
outcome call(Function& function, Arguments&&... arguments)
{
    using result = std::invoke_result_t<Function&, Arguments...>;
    if constexpr (std::is_void_v<result>) {
        std::invoke(function, std::forward<Arguments>(arguments)...);
        return done();
    } else {
        static_assert(
            std::convertible_to<result, outcome>,
            "a handler returns an outcome or nothing; coroutines need <posthorn/asio.hpp>");
        return std::invoke(function, std::forward<Arguments>(arguments)...);
    }
}

/// Turns results other than outcomes into handlers; <posthorn/asio.hpp> adds coroutines.
template <typename Result>
struct handler_of_result {
    static constexpr bool is_asynchronous = false;
};

template <typename Result>
concept waiting_result = handler_of_result<Result>::only_waits;

/// Services that handlers of one worker share, such as the threads of its coroutines.
class shared_services {
public:
    virtual ~shared_services() = default;

    template <typename Service, typename... Arguments>
    std::shared_ptr<Service> get(const Arguments&... arguments)
    {
        auto& slot = find(typeid(Service).name());
        if (!slot)
            slot = std::make_shared<Service>(arguments...);
        return std::static_pointer_cast<Service>(slot);
    }

    /// Where the worker's log lines go.
    [[nodiscard]] virtual const log_sink& log() const = 0;

protected:
    virtual std::shared_ptr<void>& find(const char* name) = 0;
};

template <typename Function>
any_handler make_handler(Function function, shared_services& services)
{
    if constexpr (std::invocable<Function&, const delivery_view&>) {
        using result = std::invoke_result_t<Function&, const delivery_view&>;
        if constexpr (handler_of_result<result>::is_asynchronous) {
            return {handler_of_result<result>::make(std::move(function), services),
                    waiting_result<result>};
        } else {
            return {any_handler::plain(
                [function = std::move(function)](const delivery_view& which) mutable {
                    return call(function, which);
                })};
        }
    } else {
        static_assert(std::invocable<Function&, transactional_delivery<>&>,
                      "a handler takes a delivery_view or a transactional_delivery<>&");
        return {any_handler::transactional(
            [function = std::move(function)](const delivery_view& which, transaction& tx) mutable {
                transactional_delivery<> both(which, tx);
                return call(function, both);
            })};
    }
}

template <typename Type, typename Function>
struct typed_call {
    using result = std::invoke_result<Function&, const Type&>;
};
template <typename Type, typename Function>
    requires std::invocable<Function&, const Type&, const delivery_view&>
struct typed_call<Type, Function> {
    using result = std::invoke_result<Function&, const Type&, const delivery_view&>;
};
template <typename Type, typename Function>
using result_of_typed = typename typed_call<Type, Function>::result::type;

template <typename Type, typename Function>
constexpr bool is_asynchronous()
{
    if constexpr (requires { typename result_of_typed<Type, Function>; })
        return handler_of_result<result_of_typed<Type, Function>>::is_asynchronous;
    else
        return false;
}

template <typename Type, typename Function>
any_handler make_typed_handler(Function function, shared_services& services)
{
    if constexpr (std::invocable<Function&, transactional_delivery<Type>&>) {
        return {any_handler::transactional(
            [function = std::move(function)](const delivery_view& which, transaction& tx) mutable {
                const Type value = decode<Type>(which.payload());
                transactional_delivery<Type> both(which, tx, value);
                return call(function, both);
            })};
    } else if constexpr (is_asynchronous<Type, Function>()) {
        return {handler_of_result<result_of_typed<Type, Function>>::template make_typed<Type>(
            std::move(function), services)};
    } else if constexpr (std::invocable<Function&, const Type&, const delivery_view&>) {
        return make_handler(
            [function = std::move(function)](const delivery_view& which) mutable {
                const Type value = decode<Type>(which.payload());
                return std::invoke(function, value, which);
            },
            services);
    } else {
        static_assert(std::invocable<Function&, const Type&>,
                      "a typed handler takes the message, the message and a delivery_view, or a "
                      "transactional_delivery of it");
        return make_handler(
            [function = std::move(function)](const delivery_view& which) mutable {
                const Type value = decode<Type>(which.payload());
                return std::invoke(function, value);
            },
            services);
    }
}

} // namespace runtime
} // namespace posthorn
