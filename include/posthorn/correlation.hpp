// Correlation: what a piece of work belongs to, known wherever that work goes.
//
//     const auto scope = ph::correlation_scope::begin("order-7");
//     ph::enqueue(store, {"mail.welcome", "…"}); // belongs to order-7
//
// A worker opens such a scope around each handler, so what handlers enqueue belongs to whatever
// their message belongs to. docs/guides/correlation.md tells more.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/message.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace posthorn {

/// The names of headers that Posthorn and the systems around it agree upon.
namespace header {
inline constexpr std::string_view message_id = "posthorn-msg-id";
inline constexpr std::string_view correlation_id = "posthorn-corr-id";
inline constexpr std::string_view correlation_sequence = "posthorn-corr-seq";
inline constexpr std::string_view causation_id = "posthorn-causation-id";
inline constexpr std::string_view traceparent = "traceparent"; ///< W3C Trace Context
inline constexpr std::string_view tracestate = "tracestate";

// Of the run of a scheduled job (schedules.hpp).
inline constexpr std::string_view job = "posthorn-job";
inline constexpr std::string_view job_nominal = "posthorn-job-nominal"; ///< 2027-03-28T01:00:00Z
inline constexpr std::string_view job_kind = "posthorn-job-kind";
inline constexpr std::string_view job_covers = "posthorn-job-covers"; ///< how many instants
inline constexpr std::string_view execution = "posthorn-execution";
} // namespace header

/// How a scope begins.
struct correlation_start {
    std::string id;               ///< 1 to 255 bytes
    std::int64_t sequence = 0;    ///< of what was published so far
    std::string cause = {};       ///< the message or execution whose work this is; empty: none
    std::string traceparent = {}; ///< one that is not valid counts as none
    std::string tracestate = {};
};

/// What a message and its consequences have in common. Everyone who works in one scope shares it.
/// Threads: safe to use from any.
class correlation {
public:
    /// Throws: `error` with `invalid_argument` for an id or cause that no message could have.
    explicit correlation(correlation_start from);
    correlation(const correlation&) = delete;
    correlation& operator=(const correlation&) = delete;

    [[nodiscard]] const std::string& id() const noexcept { return from_.id; }

    /// What is published now was caused by this message or execution.
    [[nodiscard]] const std::string& cause() const noexcept { return from_.cause; }

    /// Valid, or empty. What is published gets the same trace with a span of its own.
    [[nodiscard]] const std::string& traceparent() const noexcept { return from_.traceparent; }
    [[nodiscard]] const std::string& tracestate() const noexcept { return from_.tracestate; }

    /// The number that was given out last.
    [[nodiscard]] std::int64_t sequence() const noexcept { return sequence_.load(); }

    /// The next number of this scope, the first being 1. No two callers get the same one.
    std::int64_t increment_sequence() noexcept { return ++sequence_; }

    /// Takes a number back that no message will carry, so that the next one gets it.
    /// Returns: false, and nothing has changed, if a later number was given out already.
    bool give_back_sequence(std::int64_t number) noexcept
    {
        return sequence_.compare_exchange_strong(number, number - 1);
    }

private:
    correlation_start from_;
    std::atomic<std::int64_t> sequence_;
};

/// Makes a correlation the ambient one, from here to the end of its life.
/// Threads: it ends where it began, or in the same coroutine handler, and after those that began
/// inside of it.
class correlation_scope {
public:
    /// What is being handled stays the cause of what is published, and its trace goes on.
    /// Throws: `error` with `invalid_argument` for an id that no message could have.
    [[nodiscard]] static correlation_scope begin(std::string id, std::int64_t sequence = 0);
    [[nodiscard]] static correlation_scope begin_from(correlation_start from);

    /// Goes on with what began elsewhere; null means that nothing is ambient.
    [[nodiscard]] static correlation_scope resume(std::shared_ptr<correlation> what) noexcept;

    /// What is ambient on this thread now; null if nothing is. It may be kept for as long as one
    /// likes, and belongs to all who have it.
    [[nodiscard]] static std::shared_ptr<correlation> current() noexcept;

    correlation_scope(const correlation_scope&) = delete;
    correlation_scope& operator=(const correlation_scope&) = delete;
    ~correlation_scope();

private:
    explicit correlation_scope(std::shared_ptr<correlation> what) noexcept;

    // Shared with whoever took it along to another thread.
    std::shared_ptr<correlation> mine_;
    std::shared_ptr<correlation> before_;
};

/// The scope in which a message is to be handled: its own correlation, or its id if it has none,
/// and itself as the cause. Workers use it; so can a loop around `outbox::claim`.
[[nodiscard]] correlation_start correlation_of(const delivery& which);

/// The same for a message that came from elsewhere, by its headers alone.
[[nodiscard]] correlation_start correlation_of(message_id id, const headers& from);

namespace core {

/// Replaces what is ambient on this thread, and puts back what was there at its end, whatever ran
/// in between. `carrier` tells on whose behalf.
class ambient_visit {
public:
    ambient_visit(std::shared_ptr<correlation> what, const void* carrier) noexcept;
    ambient_visit(const ambient_visit&) = delete;
    ambient_visit& operator=(const ambient_visit&) = delete;
    ~ambient_visit();

    /// On whose behalf this thread works now; null on nobody's.
    [[nodiscard]] static const void* carrier() noexcept;

private:
    std::shared_ptr<correlation> before_;
    const void* carrier_before_;
};

} // namespace core

namespace runtime {

/// A function and what was ambient when it was bound.
template <typename Function>
class with_context {
public:
    explicit with_context(Function function)
        : context_(correlation_scope::current()), function_(std::move(function))
    {}

    template <typename... Arguments>
        requires std::is_invocable_v<Function&, Arguments...>
    decltype(auto) operator()(Arguments&&... arguments)
    {
        const core::ambient_visit visit(context_, this);
        return std::invoke(function_, std::forward<Arguments>(arguments)...);
    }

    template <typename... Arguments>
        requires std::is_invocable_v<const Function&, Arguments...>
    decltype(auto) operator()(Arguments&&... arguments) const
    {
        const core::ambient_visit visit(context_, this);
        return std::invoke(function_, std::forward<Arguments>(arguments)...);
    }

private:
    std::shared_ptr<correlation> context_; // shared with the scope it came from
    Function function_;
};

} // namespace runtime

/// Carries what is ambient now to wherever the function is called: `std::thread(bind_context(f))`.
template <typename Function>
[[nodiscard]] auto bind_context(Function&& function)
{
    return runtime::with_context<std::decay_t<Function>>(std::forward<Function>(function));
}

} // namespace posthorn
