// Timers: jobs with one instant, which are gone when it has come.
#include "core/job.hpp"
#include "core/validation.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/schedules.hpp>

#include <utility>

namespace posthorn {
namespace {

constexpr auto timer_kind = contract::job_kind::timer;

timer_record timer_of(const contract::job_row& row)
{
    return {.name = row.name,
            .position = row.number,
            .at = row.next_at.value_or(row.created_at),
            .what = {.topic = row.topic, .payload = row.payload},
            .created_at = row.created_at};
}

} // namespace

put_answer set_timer(transaction& tx, std::string_view name, timestamp at, const message& what)
{
    core::check_job_name(name);
    core::check_message(what, {.due_at = at}, tx.session().limits());
    auto& book = tx.session().jobs();
    auto row = book.jobs().lock(timer_kind, name);
    if (!row) {
        contract::job_row fresh;
        fresh.kind = timer_kind;
        fresh.name = name;
        fresh.topic = what.topic;
        fresh.payload = what.payload;
        fresh.definition = "{}";
        fresh.now = book.jobs().now();
        fresh.created_at = fresh.now;
        fresh.updated_at = fresh.now;
        if (const auto number = book.jobs().insert(fresh)) {
            fresh.number = *number;
            book.arm(fresh, at);
            return put_answer::created;
        }
        row = book.jobs().lock(timer_kind, name); // somebody was faster
        if (!row)
            throw error(error_code::serialization, "a timer of this name has just fired",
                        {.retryable = true});
    }
    if (row->next_at == at && row->topic == what.topic && row->payload == what.payload)
        return put_answer::unchanged;
    book.disarm(*row);
    row->topic = what.topic;
    row->payload = what.payload;
    row->updated_at = row->now;
    book.arm(*row, at);
    return put_answer::changed;
}

put_answer set_timer(store& where, std::string_view name, timestamp at, const message& what)
{
    return in_transaction(where, [&](transaction& tx) { return set_timer(tx, name, at, what); });
}

put_answer set_timer(transaction& tx, std::string_view name, duration after, const message& what)
{
    if (after < duration::zero() || after > limits::span_max)
        throw error(error_code::invalid_argument,
                    "timer: the time must not be negative, and at most a hundred years");
    return set_timer(tx, name, tx.session().jobs().jobs().now() + after, what);
}

put_answer set_timer(store& where, std::string_view name, duration after, const message& what)
{
    return in_transaction(where, [&](transaction& tx) { return set_timer(tx, name, after, what); });
}

bool cancel_timer(transaction& tx, std::string_view name)
{
    core::check_job_name(name);
    auto& book = tx.session().jobs();
    auto row = book.jobs().lock(timer_kind, name);
    if (!row)
        return false;
    book.disarm(*row);
    book.jobs().remove(row->number);
    return true;
}

bool cancel_timer(store& where, std::string_view name)
{
    return in_transaction(where, [&](transaction& tx) { return cancel_timer(tx, name); });
}

std::optional<timer_record> find_timer(store& where, std::string_view name)
{
    core::check_job_name(name);
    auto tx = where.read();
    const auto row = tx.session().jobs().jobs().find(timer_kind, name);
    return row ? std::optional{timer_of(*row)} : std::nullopt;
}

std::vector<timer_record> list_timers(store& where, std::int64_t after_position, std::size_t limit)
{
    if (limit == 0)
        throw error(error_code::invalid_argument, "a page needs a limit of at least 1");
    auto tx = where.read();
    std::vector<timer_record> result;
    for (const auto& row : tx.session().jobs().jobs().list(timer_kind, after_position, limit))
        result.push_back(timer_of(row));
    return result;
}

} // namespace posthorn
