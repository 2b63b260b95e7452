// Middleware around, exceptions into outcomes, transactions to their end.
#include "runtime/invocation.hpp"

#include "store/contract/run_again.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <array>
#include <exception>
#include <functional>
#include <utility>
#include <variant>

namespace posthorn::runtime {
namespace {

outcome classified(const engine& with, const std::exception_ptr& thrown)
{
    if (!with.options->classify)
        return outcome_of_exception(thrown);
    try {
        return with.options->classify(thrown);
    } catch (...) {
        return outcome_of_exception(std::current_exception());
    }
}

// The first middleware is the outermost.
outcome through_middleware(const engine& with, const delivery_view& view, std::size_t next,
                           const std::function<outcome()>& handler)
{
    const auto& around = with.options->around;
    if (next == around.size())
        return handler();
    return around[next](view, [&] { return through_middleware(with, view, next + 1, handler); });
}

void tell_end(const engine& with, const delivery_view& view, const running_delivery& which,
              const outcome& said)
{
    if (with.options->on.ended)
        with.options->on.ended(view, said,
                               with.source->environment().clock->monotonic() - which.began);
}

// Thrown through the handler's transaction, to roll it back.
struct not_done {
    outcome said;
};

// No connection, no handler: that is not the message's fault.
transaction begin(const engine& with)
{
    try {
        return with.source->begin();
    } catch (const error& failure) {
        if (failure.code() == error_code::serialization)
            throw;
        const auto& log = with.source->environment().log;
        if (failure.code() == error_code::busy && log && !with.told_of_busy.exchange(true))
            log(log_level::warning,
                fmt::format("a handler in a transaction cannot begin, will try again: {}",
                            failure.what()));
        throw not_done{postpone(without_store_pause)};
    }
}

// The handler's effects and the acknowledgement in one transaction. A deadlock is nobody's fault:
// the transaction was undone as a whole and is run again.
settled_as run_in_transaction(const engine& with, const running_ptr& which,
                              const any_handler::transactional& handler)
{
    const delivery_view view(which);
    const std::array settlement{posthorn::settlement{.receipt = view.message().receipt}};
    return contract::run_again(with.source->environment(), [&] {
        // Each run publishes anew, so each counts from where it was before the first. What the one
        // that is kept has counted is where hooks go on.
        auto start = correlation_of(view.message());
        start.sequence = which->scope->sequence();
        const auto scope = correlation_scope::begin_from(std::move(start));
        const auto inner = correlation_scope::current();
        auto tx = begin(with);
        auto said = through_middleware(with, view, 0, [&] { return handler(view, tx); });
        if (said.verdict != outcome::kind::done)
            throw not_done{std::move(said)};
        const auto answer = with.source->settle(tx, with.who, settlement).answers.front();
        if (answer == settled_as::lost)
            tx.rollback();
        else
            tx.commit();
        if (answer != settled_as::lost)
            which->scope = inner;
        return answer;
    });
}

void call_transactional(const std::shared_ptr<engine>& with, const running_ptr& which,
                        const any_handler::transactional& handler)
{
    const delivery_view view(which);
    outcome said;
    try {
        const auto answer = run_in_transaction(*with, which, handler);
        const auto scope = correlation_scope::resume(which->scope);
        tell_end(*with, view, *which, said);
        with->settling.count(which, said, answer);
        with->held.ended_and_settled(which);
        with->news();
        return;
    } catch (not_done& other) {
        said = std::move(other.said);
    } catch (const error& failure) {
        // After an unknown outcome the settlement below finds out: if the transaction was
        // committed, the message is settled and answers `lost`.
        said = failure.in_doubt() ? retry("the outcome of the handler's transaction is unknown")
                                  : classified(*with, std::current_exception());
    } catch (...) {
        said = classified(*with, std::current_exception());
    }
    tell_end(*with, view, *which, said);
    with->held.ended(which, std::move(said));
}

void call_plain(const std::shared_ptr<engine>& with, const running_ptr& which,
                const any_handler::plain& handler)
{
    const delivery_view view(which);
    outcome said;
    try {
        said = through_middleware(*with, view, 0, [&] { return handler(view); });
    } catch (...) {
        said = classified(*with, std::current_exception());
    }
    tell_end(*with, view, *which, said);
    with->held.ended(which, std::move(said));
}

void call_asynchronous(const std::shared_ptr<engine>& with, const running_ptr& which,
                       const any_handler::asynchronous& handler)
{
    handler(delivery_view(which), [with, which](any_handler::end end) {
        // It may end on any thread, such as that of a transport.
        const auto scope = correlation_scope::resume(which->scope);
        const auto* thrown = std::get_if<std::exception_ptr>(&end);
        auto said = thrown ? classified(*with, *thrown) : std::get<outcome>(std::move(end));
        tell_end(*with, delivery_view(which), *which, said);
        with->held.ended(which, std::move(said));
    });
}

void call(const std::shared_ptr<engine>& with, const running_ptr& which)
{
    const contract::patience_scope patient(with->watch->patience(),
                                           contract::patience_scope::of::handler);
    // Around the hooks, too. A coroutine takes it along.
    const auto scope = correlation_scope::begin_from(correlation_of(which->message));
    which->scope = correlation_scope::current();
    if (with->options->on.starting)
        with->options->on.starting(delivery_view(which));
    const auto& form = which->to->handler.run;
    if (const auto* plain = std::get_if<any_handler::plain>(&form))
        call_plain(with, which, *plain);
    else if (const auto* inside = std::get_if<any_handler::transactional>(&form))
        call_transactional(with, which, *inside);
    else
        call_asynchronous(with, which, std::get<any_handler::asynchronous>(form));
}

} // namespace

void invoke(const std::shared_ptr<engine>& with, const running_ptr& which) noexcept
{
    try {
        call(with, which);
    } catch (...) {
        with->settling.fail(std::current_exception());
    }
}

} // namespace posthorn::runtime
