// Saving: first what the writers write, then the events of all entities, then the commit. Nothing
// leaves an entity before that.
#include "core/planted.hpp"
#include "outbox/checked_messages.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/rest.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/unit_of_work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace posthorn {

void domain_events::raise(message what, enqueue_options how)
{
    const auto now = clock_ ? clock_->now() : environment::system().clock->now();
    pending_.push_back(
        {.message = std::move(what), .occurred_at = now, .delivery = std::move(how)});
}

void domain_events::clear(std::size_t count)
{
    const auto first = std::min(count, pending_.size());
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(first));
}

std::size_t unit_of_work::save_changes(const stop_request& stop)
{
    contract::throw_if_stopped(stop, "nothing was saved, and everything can be saved again");
    return save_changes();
}

store_unit_of_work::store_unit_of_work(store where)
    : store_(std::move(where)), world_(store_->environment())
{}

store_unit_of_work::store_unit_of_work(transaction& tx)
    : given_(&tx), world_(tx.session().environment())
{}

void store_unit_of_work::write(writer what)
{
    writers_.push_back(std::move(what));
}

void store_unit_of_work::track(domain_events& of)
{
    if (std::ranges::find(tracked_, &of, &tracked::events) == tracked_.end())
        tracked_.push_back({.events = &of});
}

void store_unit_of_work::on_commit(std::function<void()> action)
{
    actions_.push_back(std::move(action));
}

std::size_t store_unit_of_work::save_changes(const stop_request& stop)
{
    contract::throw_if_stopped(stop, "nothing was saved, and everything can be saved again");
    if (given_ != nullptr) {
        const auto rows = save_in(*given_);
        // Only now: what has thrown on the way can be saved again, by a caller who undid it.
        written_ = writers_.size();
        for (auto& each : tracked_)
            each.saved = each.events->pending().size();
        return rows;
    }
    const auto rows = in_transaction(
        *store_, [&](transaction& tx) { return save_in(tx); }, stop);
    for (auto& each : tracked_)
        each.saved = each.events->pending().size();
    finish();
    return rows;
}

// Outside of any scope what is saved together belongs together, under an id of its own.
std::size_t store_unit_of_work::save_in(transaction& tx)
{
    auto around = correlation_scope::current();
    if (!around) {
        const auto id = uuid::version_7(world_.clock->now(), *world_.random);
        around = std::make_shared<correlation>(correlation_start{.id = to_string(id)});
    }
    const auto scope = correlation_scope::resume(std::move(around));
    std::size_t rows = 0;
    for (std::size_t i = written_; i < writers_.size(); ++i)
        rows += writers_[i](tx);
    auto& session = tx.session();
    checked_messages events(session.environment(), session.limits(), tracked_.size());
    std::deque<headers> own; // which leaves its elements where they are
    for (const auto& each : tracked_) {
        const auto& pending = each.events->pending();
        for (std::size_t i = each.saved; i < pending.size(); ++i) {
            const auto& when = own.emplace_back(
                headers{{std::string(occurred_at_header),
                         std::to_string(pending[i].occurred_at.time_since_epoch().count())}});
            events.add({pending[i].message, pending[i].delivery, &when});
        }
    }
    if (events.values.empty())
        return rows;
    rows += insert_and_attach(session, events.values).size();
    if constexpr (core::events_leave_early)
        for (const auto& each : tracked_)
            each.events->clear();
    return rows;
}

void store_unit_of_work::log_failed_action(std::string_view why) const
{
    if (world_.log)
        world_.log(log_level::error,
                   fmt::format("unit of work: an action after the commit failed: {}", why));
}

// An action may begin the next piece of work here: it finds everything of this one gone.
void store_unit_of_work::finish()
{
    for (auto& each : tracked_)
        each.events->clear(each.saved);
    tracked_.clear();
    writers_.clear();
    written_ = 0;
    for (const auto& action : std::exchange(actions_, {})) {
        try {
            action();
        } catch (const std::exception& failure) {
            log_failed_action(failure.what());
        } catch (...) {
            log_failed_action("something that is no std::exception was thrown");
        }
    }
}

void store_unit_of_work::committed()
{
    finish();
}

void store_unit_of_work::rolled_back()
{
    written_ = 0;
    for (auto& each : tracked_)
        each.saved = 0;
}

} // namespace posthorn
