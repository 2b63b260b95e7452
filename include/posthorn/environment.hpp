// What the library takes from the outside world: time, randomness and a place for its log lines.
// Everything here can be replaced, so that a test decides what time it is and what chance brings.
#pragma once

#include <posthorn/time.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace posthorn {

/// Tells the time and lets it pass. Threads: safe to call from any.
class clock {
public:
    virtual ~clock() = default;

    /// The wall clock. Used as the database's clock where the database has none (SQLite).
    [[nodiscard]] virtual timestamp now() const = 0;

    /// What a database server is to take for the time instead of its own clock: nothing, except in
    /// tests, where one clock rules everything.
    [[nodiscard]] virtual std::optional<timestamp> database_time() const { return std::nullopt; }

    /// The clock for waits and time-outs: it never jumps.
    [[nodiscard]] virtual monotonic_time monotonic() const = 0;

    /// The same, but it also runs while the machine sleeps: how long somebody may think to hold
    /// what others are waiting for.
    [[nodiscard]] virtual monotonic_time since_boot() const { return monotonic(); }

    /// Lets the calling thread rest for about `length`.
    virtual void pause(duration length) const = 0;
};

/// A source of unguessable bytes. Threads: safe to call from any.
class random_source {
public:
    virtual ~random_source() = default;

    virtual void fill(std::span<std::uint8_t> bytes) = 0;

    /// Sixty-four random bits.
    [[nodiscard]] std::uint64_t bits();

    /// A number in [0, 1).
    [[nodiscard]] double fraction();
};

enum class log_level { debug, info, warning, error };

template <typename Type>
concept LogFunction = std::is_invocable_v<Type&, log_level, std::string_view>;

/// Receives one finished line at a time; never a payload, never a secret. Any function of a level
/// and a line becomes one; lines below `from` are not even made. Empty: silence.
/// Threads: the function is called from any.
class log_sink {
public:
    log_sink() = default;
    log_sink(std::nullptr_t) noexcept {} // NOLINT: meant to convert

    template <LogFunction Function>
        requires(!std::same_as<Function, log_sink>)
    log_sink(Function write, log_level from = log_level::debug) // NOLINT: meant to convert
        : write_(std::move(write)), from_(from)
    {}

    explicit operator bool() const noexcept { return static_cast<bool>(write_); }

    /// Whether a line of this level would be written.
    [[nodiscard]] bool takes(log_level level) const noexcept { return write_ && level >= from_; }

    void operator()(log_level level, std::string_view line) const
    {
        if (takes(level))
            write_(level, line);
    }

private:
    std::function<void(log_level, std::string_view)> write_;
    log_level from_ = log_level::debug;
};

/// The three of them together, as every store holds them.
struct environment {
    std::shared_ptr<posthorn::clock> clock;
    std::shared_ptr<random_source> random;
    log_sink log;

    /// The machine's clock, the kernel's randomness, and a log on standard error: one line each for
    /// what is at least as bad as `log_from`. Nothing: silence.
    [[nodiscard]] static environment system(std::optional<log_level> log_from = log_level::warning);
};

} // namespace posthorn
