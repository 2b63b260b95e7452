// The way of a command: checks, key, handler, and whatever stands between them.
#include "outbox/in_transaction.hpp"
#include <posthorn/commands.hpp>
#include <posthorn/error.hpp>
#include <posthorn/id.hpp>

#include <fmt/format.h>

#include <exception>
#include <iterator>
#include <span>
#include <utility>

namespace posthorn {
namespace {

// Thrown through the transaction of a command that was refused, so that nothing of it is kept.
struct refused_command final : std::exception {
    [[nodiscard]] const char* what() const noexcept override { return "the command was refused"; }
};

constexpr std::string_view key_field = "idempotency_key";

void check_key_of(command_context& which)
{
    const auto parsed = uuid::parse(which.key);
    if (!parsed || parsed->is_nil())
        which.problems.add(std::string(key_field), "must be a UUID that is not nil");
}

// A command inside its transaction, which may be one of several: what an earlier one left is gone.
class within {
public:
    within(command_context& which, transaction& tx) : which_(which)
    {
        which.tx = &tx;
        which.result.clear();
        which.problems = {};
    }
    within(const within&) = delete;
    within& operator=(const within&) = delete;
    ~within() { which_.tx = nullptr; }

private:
    command_context& which_;
};

void pass(command_context& which, std::span<const behaviour> through, const next_behaviour& to)
{
    if (through.empty())
        to();
    else
        through.front()(which, [&] { pass(which, through.subspan(1), to); });
}

} // namespace

command_pipeline::command_pipeline(store where, const pipeline_options& how)
    : store_(std::move(where)), options_(how)
{}

void command_pipeline::add_check(std::string_view name, step check)
{
    checks_[std::string(name)].push_back(std::move(check));
}

void command_pipeline::set_handler(std::string_view name, step handler)
{
    if (!handlers_.emplace(name, std::move(handler)).second)
        throw error(error_code::invalid_argument,
                    fmt::format("the command '{}' has a handler already", name));
}

void command_pipeline::use(stage before, behaviour what)
{
    behaviours_[before].push_back(std::move(what));
}

std::span<const behaviour> command_pipeline::behaviours_before(stage which) const
{
    const auto found = behaviours_.find(which);
    return found == behaviours_.end() ? std::span<const behaviour>{} : found->second;
}

command_result<std::string> command_pipeline::run(command_context& which, bool idempotent,
                                                  const stop_request& stop)
{
    if (!handlers_.contains(which.name))
        throw error(error_code::not_found,
                    fmt::format("nobody handles the command '{}'", which.name));
    command_result<std::string> result;
    const auto through_idempotency = [&] {
        if (which.problems.empty())
            result = run_in_transaction(which, idempotent, stop);
    };
    const auto through_validation = [&] {
        if (idempotent)
            check_key_of(which);
        if (const auto checks = checks_.find(which.name); checks != checks_.end())
            for (const auto& check : checks->second)
                check(which);
        if (which.problems.empty())
            pass(which, behaviours_before(stage::idempotency), through_idempotency);
    };
    pass(which, behaviours_before(stage::validation), through_validation);
    return result;
}

command_result<std::string> command_pipeline::run_in_transaction(command_context& which,
                                                                 bool idempotent,
                                                                 const stop_request& stop)
{
    if (stop.requested())
        return {.answer = command_answer::stopped};
    const auto work = [&](transaction& tx) {
        const within inside(which, tx);
        const auto to_handler = [&] { handlers_.find(which.name)->second(which); };
        pass(which, behaviours_before(stage::handler), to_handler);
        if (!which.problems.empty())
            throw refused_command{};
        return which.result;
    };
    try {
        if (!idempotent)
            return {.answer = command_answer::executed, .result = in_transaction(store_, work)};
        return run_once(store_,
                        {.command = std::string(which.name),
                         .key = which.key,
                         .fingerprint = which.fingerprint,
                         .lock = options_.lock,
                         .keep = options_.keep,
                         .wait = options_.wait},
                        work, stop);
    } catch (const refused_command&) {
        return {.answer = command_answer::executed}; // and the problems say the rest
    }
}

namespace command_detail {

void throw_refused(const std::vector<problem>& why)
{
    std::string text = "the command was refused:";
    for (const auto& each : why)
        fmt::format_to(std::back_inserter(text), " {} {};", each.field, each.what);
    text.pop_back();
    throw error(error_code::invalid_argument, text);
}

} // namespace command_detail
} // namespace posthorn
