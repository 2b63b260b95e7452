// Commands that run once per key, whatever their clients repeat.
//
//     auto charged = ph::run_once(store, {.command = "charge", .key = key, .fingerprint = hash},
//                                 [&](ph::transaction& tx) { return charge(tx, order); });
//     charged.answer   // executed, replayed, in_progress, mismatch or lost
//     charged.value()  // the result, of this call or of the first
//
// The result is text, or nothing, or what a codec makes text of. See docs/decisions/0015.
#pragma once

#include <posthorn/error.hpp>
#include <posthorn/message_type.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace posthorn {

struct command_key {
    std::string command;          ///< 1 to 500 bytes
    std::string key;              ///< 1 to 200 bytes; the same key of another command is another
    std::string fingerprint = {}; ///< up to 255 bytes: what the request is known by

    /// After this long a command that has not ended is thought dead: the next one takes over.
    duration lock = std::chrono::seconds{60};

    /// How long the result is kept; after that the command may run again.
    duration keep = std::chrono::hours{24};

    /// How long to wait for somebody else who is at it. On a store only: within a given
    /// transaction the database waits.
    duration wait = {};
};

enum class key_state { in_progress, completed, failed };

[[nodiscard]] std::string_view to_string(key_state state) noexcept;
[[nodiscard]] std::optional<key_state> parse_key_state(std::string_view text) noexcept;

enum class command_answer {
    executed,    ///< this call ran it
    replayed,    ///< it ran before: this is the stored result
    in_progress, ///< somebody else is running it
    mismatch,    ///< the key was used for another request
    lost,        ///< it took longer than its lock and somebody took over: nothing of it was kept
    stopped,     ///< this call was told to stop before it began: it has changed nothing
};

[[nodiscard]] std::string_view to_string(command_answer answer) noexcept;

/// What became of a command.
template <typename Result>
struct command_result {
    command_answer answer = command_answer::executed;
    std::optional<Result> result = {};

    [[nodiscard]] bool replayed() const noexcept { return answer == command_answer::replayed; }

    /// Throws: `error` with `busy` (in progress, lost; retryable), `constraint` (mismatch) or
    /// `stopped` (retryable).
    [[nodiscard]] const Result& value() const;
};

/// Everything known about one key.
struct key_record {
    std::string command;
    std::string key;
    std::string fingerprint;
    key_state state = key_state::in_progress;
    std::int64_t epoch = 1; ///< how often it was begun
    std::string result;
    std::string error; ///< of one that failed
    timestamp created_at;
    timestamp lock_until;
    std::optional<timestamp> ended_at;
    timestamp expires_at;
};

/// The steps of `run_once`, for those who cannot hand over a function.
struct reservation {
    command_answer answer = command_answer::executed; ///< executed: run it now, then complete it
    std::int64_t token = 0;                           ///< proof of it
    std::int64_t epoch = 0;
    std::string result = {}; ///< of one that is replayed
};

/// Throws: `error` with `invalid_argument` for names or times out of bounds.
[[nodiscard]] reservation reserve(transaction& tx, const command_key& which);
[[nodiscard]] reservation reserve(store& where, const command_key& which);

/// Stores the result. False: somebody took over, so `tx` must be rolled back.
[[nodiscard]] bool complete(transaction& tx, const command_key& which, const reservation& held,
                            std::string_view result);

/// Lets the next one try. False: somebody took over.
bool give_up(transaction& tx, const command_key& which, const reservation& held,
             std::string_view error);
bool give_up(store& where, const command_key& which, const reservation& held,
             std::string_view error);

[[nodiscard]] std::optional<key_record> find_key(store& where, std::string_view command,
                                                 std::string_view key);

struct key_filter {
    std::string command = {};
    std::optional<key_state> state = {};
    std::string after_command = {}; ///< with `after_key`: where the next page starts
    std::string after_key = {};
    std::size_t limit = 50;
};

/// One page of keys, in the order of their names, without results.
[[nodiscard]] std::vector<key_record> list_keys(store& where, const key_filter& filter = {});

/// Forgets a key, whatever its state: its command can run again at once, and whoever is running it
/// cannot complete it. For operators. False: there is no such key.
bool release_key(store& where, std::string_view command, std::string_view key);

namespace idempotency_detail {

template <typename Result>
[[nodiscard]] std::string encode(const Result& value)
{
    if constexpr (std::is_convertible_v<Result, std::string>)
        return value;
    else
        return runtime::codec_for<json_codec, Result>::type::encode(value);
}

template <typename Result>
[[nodiscard]] Result decode(std::string_view bytes)
{
    if constexpr (std::is_convertible_v<Result, std::string>)
        return std::string(bytes);
    else
        return runtime::codec_for<json_codec, Result>::type::template decode<Result>(bytes);
}

using bytes_of_command = std::function<std::string(transaction&)>;

[[nodiscard]] command_result<std::string> run(transaction& tx, const command_key& which,
                                              const bytes_of_command& command,
                                              const stop_request& stop);
[[nodiscard]] command_result<std::string> run(store& where, const command_key& which,
                                              const bytes_of_command& command,
                                              const stop_request& stop);

[[noreturn]] void throw_without_value(command_answer answer);

template <typename Function>
struct result_of : std::invoke_result<Function&> {};
template <typename Function>
    requires std::is_invocable_v<Function&, transaction&>
struct result_of<Function> : std::invoke_result<Function&, transaction&> {};

template <typename Function>
decltype(auto) call(Function& function, transaction& tx)
{
    if constexpr (std::is_invocable_v<Function&, transaction&>)
        return std::invoke(function, tx);
    else
        return std::invoke(function);
}

} // namespace idempotency_detail

template <typename Result>
const Result& command_result<Result>::value() const
{
    if (!result)
        idempotency_detail::throw_without_value(answer);
    return *result;
}

/// Runs a command once per key, and answers the same bytes ever after.
/// On a store: the key is reserved in a transaction of its own; then `function` runs in another,
/// with which its result is stored. Within a given transaction: both are part of it, and a
/// duplicate waits for it to end. On a store, `function` is called again if the database gave its
/// transaction up. What it throws marks the key failed and is passed on; the
/// command may then be tried again.
/// A stop ends the wait for another holder, and keeps the command from beginning: the answer is
/// `stopped`. A command that has begun goes on to its end.
template <typename Place, typename Function>
    requires std::is_same_v<Place, transaction> || std::is_base_of_v<transaction, Place> ||
        std::is_same_v<Place, store>
auto run_once(Place& where, const command_key& which, Function&& function,
              const stop_request& stop = {})
{
    using returned =
        typename idempotency_detail::result_of<std::remove_reference_t<Function>>::type;
    if constexpr (std::is_void_v<returned>) {
        const auto bytes_of = [&](transaction& tx) {
            idempotency_detail::call(function, tx);
            return std::string{};
        };
        return idempotency_detail::run(where, which, bytes_of, stop);
    } else {
        using result = std::remove_cvref_t<returned>;
        command_result<result> answer;
        std::optional<result> made;
        const auto bytes_of = [&](transaction& tx) {
            made.emplace(idempotency_detail::call(function, tx));
            return idempotency_detail::encode(*made);
        };
        auto bytes = idempotency_detail::run(where, which, bytes_of, stop);
        answer.answer = bytes.answer;
        if (bytes.answer == command_answer::executed)
            answer.result = std::move(made);
        else if (bytes.result)
            answer.result = idempotency_detail::decode<result>(*bytes.result);
        return answer;
    }
}

} // namespace posthorn
