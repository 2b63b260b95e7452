// Commands: typed requests that pass through behaviours to their one handler.
//
//     struct register_user { std::string email; std::string idempotency_key; };
//     template <> struct posthorn::command_type<register_user> {
//         static constexpr std::string_view name = "users.register";
//         using result = std::string;
//     };
//
//     ph::command_pipeline commands(store);
//     commands.validate<register_user>([](const register_user& c, ph::problems& found) {
//         if (c.email.empty()) found.add("email", "is empty");
//     });
//     commands.handle<register_user>([](const register_user& c, ph::transaction& tx) { … });
//     auto answer = commands.send(register_user{…});
//
// The order is validation, idempotency, handler; behaviours of your own go before any of them. A
// command is idempotent if it has an `idempotency_key`, which must then be a UUID that is not nil.
#pragma once

#include <posthorn/idempotency.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace posthorn {

/// Specialise it for your own types: `name`, and the type of the `result` (void is allowed).
template <typename Type>
struct command_type;

template <typename Type>
concept command = requires
{
    {
        command_type<Type>::name
        } -> std::convertible_to<std::string_view>;
    typename command_type<Type>::result;
};

template <typename Type>
concept idempotent_command = command<Type> && requires(const Type& which)
{
    {
        which.idempotency_key
        } -> std::convertible_to<std::string>;
};

/// One thing that is wrong with a command.
struct problem {
    std::string field;
    std::string what;

    friend bool operator==(const problem&, const problem&) = default;
};

/// Everything that is wrong with a command.
class problems {
public:
    void add(std::string field, std::string what)
    {
        found_.push_back({std::move(field), std::move(what)});
    }
    [[nodiscard]] bool empty() const noexcept { return found_.empty(); }
    [[nodiscard]] const std::vector<problem>& list() const noexcept { return found_; }

private:
    std::vector<problem> found_;
};

/// A command on its way through the pipeline, without its type.
struct command_context {
    std::string_view name;
    const void* command = nullptr; ///< of the type that has this name
    std::string key = {};          ///< empty: it is not idempotent
    std::string fingerprint = {};
    posthorn::problems problems = {};
    transaction* tx = nullptr; ///< there from idempotency onwards
    std::string result = {};   ///< as bytes, once the handler has run
};

/// Passes the command on. A behaviour that does not call it must say why in `problems`; what it has
/// found by then also ends the command, and nothing of it is kept.
using next_behaviour = std::function<void()>;
using behaviour = std::function<void(command_context&, const next_behaviour&)>;

/// What a behaviour comes before.
enum class stage { validation, idempotency, handler };

/// What became of a command that was sent.
template <typename Result>
struct sent_command {
    std::vector<problem> problems = {}; ///< not empty: it was refused, and nothing of it was kept
    command_result<Result> outcome = {};

    [[nodiscard]] bool refused() const noexcept { return !problems.empty(); }

    /// Throws: `error` with `invalid_argument` that names every field if it was refused; else as
    /// `command_result::value`.
    [[nodiscard]] const Result& value() const;
};

struct pipeline_options {
    duration lock = std::chrono::seconds{60}; ///< of keys, as in `command_key`
    duration keep = std::chrono::hours{24};
    duration wait = {};
};

/// Threads: `send` is safe from any, once everything has been added.
class command_pipeline {
public:
    explicit command_pipeline(store where, const pipeline_options& how = {});

    /// Adds a check; a command may have several, and all of them run.
    template <command Type>
    void validate(std::function<void(const Type&, problems&)> check)
    {
        add_check(command_type<Type>::name, [check = std::move(check)](command_context& which) {
            check(*static_cast<const Type*>(which.command), which.problems);
        });
    }

    /// The handler takes the command and its transaction; and `problems&`, if it may find only
    /// there that the command must be refused: what it then returns and has written is not kept.
    /// Throws: `error` with `invalid_argument` if the command has a handler already.
    template <command Type, typename Function>
    void handle(Function function)
    {
        using result = typename command_type<Type>::result;
        set_handler(command_type<Type>::name,
                    [function = std::move(function)](command_context& which) {
                        const auto& what = *static_cast<const Type*>(which.command);
                        const auto call = [&]() -> decltype(auto) {
                            if constexpr (std::is_invocable_v<const Function&, const Type&,
                                                              transaction&, posthorn::problems&>)
                                return function(what, *which.tx, which.problems);
                            else
                                return function(what, *which.tx);
                        };
                        if constexpr (std::is_void_v<result>)
                            call();
                        else
                            which.result = idempotency_detail::encode<result>(call());
                    });
    }

    /// Behaviours before the same stage run in the order in which they were added.
    void use(stage before, behaviour what);

    /// A stop is heeded until the handler begins, as by `run_once`: the answer is then `stopped`.
    /// Throws: `error` with `not_found` if nobody handles the command, and what its handler throws.
    template <command Type>
    auto send(const Type& what, std::string fingerprint = {}, const stop_request& stop = {})
    {
        using declared = typename command_type<Type>::result;
        using result = std::conditional_t<std::is_void_v<declared>, std::string, declared>;
        command_context which{.name = command_type<Type>::name, .command = &what};
        bool idempotent = false;
        if constexpr (idempotent_command<Type>) {
            idempotent = true;
            which.key = what.idempotency_key;
            which.fingerprint = std::move(fingerprint);
        }
        auto bytes = run(which, idempotent, stop);
        sent_command<result> answer;
        answer.problems = which.problems.list();
        answer.outcome.answer = bytes.answer;
        if (bytes.result && answer.problems.empty())
            answer.outcome.result = idempotency_detail::decode<result>(*bytes.result);
        return answer;
    }

private:
    using step = std::function<void(command_context&)>;

    void add_check(std::string_view name, step check);
    void set_handler(std::string_view name, step handler);
    [[nodiscard]] command_result<std::string> run(command_context& which, bool idempotent,
                                                  const stop_request& stop);
    [[nodiscard]] std::span<const behaviour> behaviours_before(stage which) const;
    [[nodiscard]] command_result<std::string> run_in_transaction(command_context& which,
                                                                 bool idempotent,
                                                                 const stop_request& stop);

    store store_;
    pipeline_options options_;
    std::map<std::string, std::vector<step>, std::less<>> checks_;
    std::map<std::string, step, std::less<>> handlers_;
    std::map<stage, std::vector<behaviour>> behaviours_;
};

namespace command_detail {

/// Names every field.
[[noreturn]] void throw_refused(const std::vector<problem>& why);

} // namespace command_detail

template <typename Result>
const Result& sent_command<Result>::value() const
{
    if (refused())
        command_detail::throw_refused(problems);
    return outcome.value();
}

} // namespace posthorn
