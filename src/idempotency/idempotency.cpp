// Reserve, run, complete: the order of these and what is committed with what.
#include "core/inbox.hpp"
#include "core/planted.hpp"
#include "core/validation.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/key_table.hpp"
#include "store/contract/rest.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/idempotency.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace posthorn {
namespace {

// Thrown through the transaction, which is then rolled back.
struct taken_over {};

contract::key_request request_of(const command_key& which, std::int64_t token)
{
    return {.command = which.command,
            .key = which.key,
            .fingerprint = which.fingerprint,
            .token = token,
            .lock = core::locks_for_ever ? which.keep : which.lock,
            .keep = which.keep};
}

// The database takes 63 bits.
std::int64_t new_token(const environment& world)
{
    return static_cast<std::int64_t>(world.random->bits() >> 1U);
}

// Another request under the same key is said first, also while the first one is running.
reservation answer_for(const contract::reserved_key& found, const command_key& which,
                       std::int64_t token)
{
    reservation result{.token = token, .epoch = found.row.epoch};
    if (found.ours)
        result.answer = command_answer::executed;
    else if (found.row.fingerprint != which.fingerprint)
        result.answer = command_answer::mismatch;
    else if (found.row.state == key_state::completed)
        result.answer = command_answer::replayed;
    else
        result.answer = command_answer::in_progress;
    if (result.answer == command_answer::replayed)
        result.result = found.row.result;
    return result;
}

command_result<std::string> without_running(reservation&& held)
{
    command_result<std::string> result{.answer = held.answer};
    if (held.answer == command_answer::replayed)
        result.result = std::move(held.result);
    return result;
}

std::string words_of(const std::exception_ptr& thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& failure) {
        return failure.what();
    } catch (...) {
        return "something that is no std::exception was thrown";
    }
}

// What cannot be recorded must not hide why the command failed: its lock runs out instead.
template <typename Place>
void try_to_give_up(Place& where, const command_key& which, const reservation& held,
                    const std::exception_ptr& why) noexcept
{
    try {
        (void)give_up(where, which, held, words_of(why));
    } catch (const error&) {
        return;
    }
}

// Nothing: it was told to stop before the key was reserved.
std::optional<reservation> reserve_or_wait(store& where, const command_key& which,
                                           const stop_request& stop)
{
    const auto& clock = *where.environment().clock;
    const auto give_up_at = clock.monotonic() + which.wait;
    duration pause = std::chrono::milliseconds{5};
    while (!stop.requested()) {
        auto held = reserve(where, which);
        const auto now = clock.monotonic();
        if (held.answer != command_answer::in_progress || now >= give_up_at)
            return held;
        const auto left = std::chrono::duration_cast<duration>(give_up_at - now);
        contract::rest(where.environment(), std::min(pause, left), stop);
        pause = std::min<duration>(pause * 2, std::chrono::milliseconds{200});
    }
    return std::nullopt;
}

} // namespace

reservation reserve(transaction& tx, const command_key& which)
{
    core::check_command(which);
    auto& session = tx.session();
    const auto token = new_token(session.environment());
    return answer_for(session.command_keys().reserve(request_of(which, token)), which, token);
}

reservation reserve(store& where, const command_key& which)
{
    core::check_command(which);
    const auto token = new_token(where.environment());
    const auto found = contract::run_again(
        where.environment(), [&] { return where.backend().reserve(request_of(which, token)); });
    return answer_for(found, which, token);
}

bool complete(transaction& tx, const command_key& which, const reservation& held,
              std::string_view result)
{
    auto& session = tx.session();
    if (result.size() > session.limits().payload_bytes_max)
        throw error(error_code::invalid_argument,
                    "the result of the command is longer than a payload may be");
    return session.command_keys().complete(request_of(which, held.token), result) ||
           core::completes_late;
}

bool give_up(transaction& tx, const command_key& which, const reservation& held,
             std::string_view error)
{
    return tx.session().command_keys().fail(request_of(which, held.token),
                                            core::readable(error, limits::error_bytes_max));
}

bool give_up(store& where, const command_key& which, const reservation& held,
             std::string_view error)
{
    return in_transaction(where, [&](transaction& tx) { return give_up(tx, which, held, error); });
}

std::optional<key_record> find_key(store& where, std::string_view command, std::string_view key)
{
    auto tx = where.read();
    return tx.session().command_keys().find(command, key);
}

std::vector<key_record> list_keys(store& where, const key_filter& filter)
{
    if (filter.limit == 0)
        throw error(error_code::invalid_argument, "a page needs a limit of at least 1");
    auto tx = where.read();
    return tx.session().command_keys().list(filter);
}

bool release_key(store& where, std::string_view command, std::string_view key)
{
    return in_transaction(
        where, [&](transaction& tx) { return tx.session().command_keys().release(command, key); });
}

namespace idempotency_detail {

command_result<std::string> run(transaction& tx, const command_key& which,
                                const bytes_of_command& command, const stop_request& stop)
{
    if (stop.requested())
        return {.answer = command_answer::stopped};
    auto held = reserve(tx, which);
    if (held.answer != command_answer::executed)
        return without_running(std::move(held));
    try {
        command_result<std::string> result{.answer = command_answer::executed,
                                           .result = command(tx)};
        if (!complete(tx, which, held, *result.result))
            throw error(error_code::internal, "a key changed hands within one transaction");
        return result;
    } catch (...) {
        try_to_give_up(tx, which, held, std::current_exception());
        throw;
    }
}

// The reservation is committed before the command runs, and the completion with it: whoever took
// over meanwhile makes the completion find nothing, and then nothing of the command is kept.
// Once the key is reserved the command runs to its end, stop or not: to give the key up again would
// mark it as failed, though nothing has failed.
command_result<std::string> run(store& where, const command_key& which,
                                const bytes_of_command& command, const stop_request& stop)
{
    auto waited = reserve_or_wait(where, which, stop);
    if (!waited)
        return {.answer = command_answer::stopped};
    auto& held = *waited;
    if (held.answer != command_answer::executed)
        return without_running(std::move(held));
    try {
        return in_transaction(where, [&](transaction& tx) -> command_result<std::string> {
            command_result<std::string> result{.answer = command_answer::executed,
                                               .result = command(tx)};
            if (complete(tx, which, held, *result.result))
                return result;
            throw taken_over{};
        });
    } catch (const taken_over&) {
        return {.answer = command_answer::lost};
    } catch (const error& failure) {
        // Of a commit that may have happened nobody can say that it failed.
        if (!failure.in_doubt())
            try_to_give_up(where, which, held, std::current_exception());
        throw;
    } catch (...) {
        try_to_give_up(where, which, held, std::current_exception());
        throw;
    }
}

void throw_without_value(command_answer answer)
{
    if (answer == command_answer::mismatch)
        throw error(error_code::constraint, "the key was used before, for another request");
    if (answer == command_answer::stopped)
        throw error(error_code::stopped, "told to stop: the command was not begun, send it again",
                    {.retryable = true});
    if (answer == command_answer::lost)
        throw error(error_code::busy,
                    "the command took longer than its lock, and somebody else took over; nothing "
                    "of it was kept",
                    {.retryable = true});
    throw error(error_code::busy, "the command is being run under this key by somebody else",
                {.retryable = true});
}

} // namespace idempotency_detail
} // namespace posthorn
