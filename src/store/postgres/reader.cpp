// Reading: find the numbers of the messages through the index that fits, then their records.
#include "store/postgres/reader.hpp"

#include "core/validation.hpp"
#include "store/contract/listing.hpp"
#include "store/contract/numbered_id.hpp"
#include "store/postgres/row_state.hpp"
#include "store/postgres/statements.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace posthorn::postgres {
namespace {

// Every statement that lists has the same filter, so its parameters are set by one function.
template <typename Statement>
arguments filtered(const message_filter& filter)
{
    const contract::topic_filter topic(filter.topic);
    arguments with;
    with.set(Statement::after, filter.after_position)
        .set(Statement::before, filter.before_position)
        .set_text_or_null(Statement::topic, topic.exact)
        .set_text_or_null(Statement::topic_start, topic.start)
        .set_text_or_null(Statement::ordering_key, filter.ordering_key)
        .set_text_or_null(Statement::correlation_id, filter.correlation_id)
        .set(Statement::created_before, filter.created_before)
        .set_text_or_null(Statement::error, filter.error_contains)
        .set(Statement::limit, static_cast<std::int64_t>(filter.limit));
    return with;
}

std::vector<std::int64_t> numbers(const rows& found)
{
    std::vector<std::int64_t> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(found.integer(row, 0));
    return result;
}

template <typename Statement>
std::vector<std::int64_t> seqs(conversation& talk, const message_filter& filter)
{
    return numbers(talk.run(Statement::text, filtered<Statement>(filter)));
}

struct of_places {
    std::span<const std::int64_t> places;
    bool waits = false;
    std::int64_t ready_as = 0; ///< 0 is all of them
};

std::vector<std::int64_t> seqs_in_places(conversation& talk, const message_filter& filter,
                                         const of_places& which, const environment& world)
{
    using statement = sql::seqs_in_places;
    auto with = filtered<statement>(filter);
    set_now(with, statement::now, world);
    with.set(statement::places, which.places)
        .set_flag(statement::waits, which.waits)
        .set(statement::ready_as, which.ready_as);
    return numbers(talk.run(statement::text, with));
}

std::vector<std::int64_t> seqs_in_state(conversation& talk, const message_filter& filter,
                                        row_state state)
{
    using statement = sql::seqs_in_state;
    auto with = filtered<statement>(filter);
    with.set(statement::state, number(state));
    return numbers(talk.run(statement::text, with));
}

message_record read_record(const rows& found, int row)
{
    const auto state = static_cast<row_state>(found.integer(row, 10));
    message_record result;
    result.position = found.integer(row, 0);
    result.id = found.id(row, 1);
    result.created_at = found.time(row, 2);
    result.due_at = found.time(row, 3);
    result.expires_at = found.time_or_none(row, 4);
    result.fence = fence{found.integer(row, 5)};
    result.started_at = found.time_or_none(row, 6);
    result.finished_at = found.time_or_none(row, 7);
    result.failed_at = found.time_or_none(row, 8);
    result.attempts = static_cast<int>(found.integer(row, 9));
    result.parked_for = reason_of(found.integer(row, 25));
    result.state = result.parked_for ? contract::state_aside(*result.parked_for)
                                     : state_of(state, found.yes(row, 11));
    result.started = state == row_state::started;
    result.blocks_key = state == row_state::dead_blocking;
    result.worker = found.text(row, 12);
    result.priority = static_cast<int>(found.integer(row, 13));
    result.errors = static_cast<int>(found.integer(row, 14));
    result.redrives = static_cast<int>(found.integer(row, 15));
    result.topic = found.text(row, 16);
    result.ordering_key = found.text(row, 17);
    result.correlation_id = found.text(row, 18);
    result.causation_id = found.text(row, 19);
    result.headers = core::headers_from_json(found.text(row, 20));
    result.last_error = found.text(row, 21);
    result.payload_bytes = static_cast<std::size_t>(found.integer(row, 22));
    result.payload = found.text(row, 23);
    result.lease_until = found.time_or_none(row, 24);
    if (result.state == message_state::ready)
        result.ready_as = contract::ready_as(found.yes(row, 26), result.errors);
    return result;
}

} // namespace

std::optional<message_record> reader::find(message_id id)
{
    arguments which;
    which.set(sql::find_message::hint, contract::number_in(id)).set(sql::find_message::id, id);
    const auto found = talk_.run(sql::find_message::text, which);
    if (found.empty())
        return std::nullopt;
    const auto seq = found.integer(0, 0);
    auto all = records({&seq, 1}, true);
    return all.empty() ? std::nullopt : std::optional{std::move(all.front())};
}

std::vector<message_record> reader::list(const message_filter& filter)
{
    return records(matching_seqs(filter), filter.with_payload);
}

std::vector<message_record> reader::records(std::span<const std::int64_t> which, bool with_payload)
{
    if (which.empty())
        return {};
    arguments with;
    set_now(with, sql::records::now, world_);
    with.set(sql::records::seqs, which).set_flag(sql::records::with_payload, with_payload);
    const auto found = talk_.run(sql::records::text, with);
    std::vector<message_record> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_record(found, row));
    return result;
}

std::vector<std::int64_t> reader::matching_seqs(const message_filter& filter)
{
    if (!filter.state)
        return seqs<sql::seqs_of_all>(talk_, filter);
    const auto in = [&](const of_places& which) {
        return seqs_in_places(talk_, filter, which, world_);
    };
    switch (*filter.state) {
    case message_state::ready: {
        auto queued = in({.places = places_of_ready, .ready_as = contract::ready_number(filter)});
        if (!contract::takes_due(filter))
            return queued;
        return contract::merged(queued, seqs<sql::seqs_of_plain>(talk_, filter), filter.limit);
    }
    case message_state::waiting: return in({.places = places_of_waiting, .waits = true});
    case message_state::parked: return in({.places = places_of_parked});
    case message_state::claimed: return seqs<sql::seqs_of_claimed>(talk_, filter);
    case message_state::dead: return in({.places = places_of_dead});
    case message_state::done: return seqs_in_state(talk_, filter, row_state::done);
    case message_state::cancelled: return seqs_in_state(talk_, filter, row_state::cancelled);
    case message_state::expired: return seqs_in_state(talk_, filter, row_state::expired);
    }
    return {};
}

store_stats reader::count()
{
    store_stats result;
    arguments now;
    arguments plain;
    arguments queue;
    set_now(now, sql::time_now::now, world_);
    set_now(queue, sql::count_queue::now, world_);
    plain.set(sql::count_plain::limit, contract::countable_max + 1);
    const auto all = talk_.run_all({{sql::time_now::text, now},
                                    {sql::count_plain::text, plain},
                                    {sql::count_queue::text, queue},
                                    {sql::count_dead::text, {}},
                                    {sql::count_open::text, {}},
                                    {sql::count_parked::text, {}}});
    result.ready = all[1].integer(0, 0);
    result.exact = result.ready <= contract::countable_max;
    if (!result.exact)
        result.ready = all[1].integer(0, 2);
    auto oldest = all[1].time_or_none(0, 1);
    for (int row = 0; row < all[2].size(); ++row) {
        const bool later = all[2].yes(row, 1);
        const auto count = all[2].integer(row, 2);
        if (all[2].yes(row, 0)) {
            result.waiting += count;
        } else if (later) {
            result.delayed += count;
            result.retrying += all[2].integer(row, 4);
        } else {
            result.ready += count;
            const auto since = all[2].time(row, 3);
            oldest = std::min(oldest.value_or(since), since);
        }
    }
    result.dead = all[3].integer(0, 0);
    result.blocked_keys = all[3].integer(0, 1);
    result.claimed = all[4].integer(0, 0);
    result.parked = all[5].integer(0, 0);
    if (oldest)
        result.oldest_ready = std::max(all[0].time(0, 0) - *oldest, duration::zero());
    count_finished(result);
    return result;
}

void reader::count_finished(store_stats& into)
{
    const auto size = talk_.run(sql::table_size::text);
    const auto given_out = into.enqueued = size.integer(0, 0);
    const auto believed = size.integer(0, 1);
    if (given_out > contract::countable_max && believed > contract::countable_max) {
        into.exact = false;
        into.done = std::max<std::int64_t>(0, believed - into.ready - into.delayed - into.waiting -
                                                  into.parked - into.claimed - into.dead);
        return;
    }
    const auto found = talk_.run(sql::count_finished::text);
    for (int row = 0; row < found.size(); ++row) {
        const auto state = static_cast<row_state>(found.integer(row, 0));
        auto& counter = state == row_state::done        ? into.done
                        : state == row_state::cancelled ? into.cancelled
                                                        : into.expired;
        counter += found.integer(row, 1);
    }
}

std::vector<blocked_key> reader::blocked_keys(std::size_t limit)
{
    arguments with;
    with.set(sql::blocked_keys::limit, static_cast<std::int64_t>(limit));
    const auto found = talk_.run(sql::blocked_keys::text, with);
    std::vector<blocked_key> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back({.ordering_key = std::string(found.text(row, 0)),
                          .dead_message = found.id(row, 1),
                          .topic = std::string(found.text(row, 2)),
                          .last_error = std::string(found.text(row, 3)),
                          .since = found.time(row, 4),
                          .waiting = found.integer(row, 5)});
    return result;
}

std::optional<message_id> reader::blocker_of(std::string_view ordering_key)
{
    arguments with;
    with.set_text(sql::blocker_of::ordering_key, ordering_key);
    const auto found = talk_.run(sql::blocker_of::text, with);
    return found.empty() ? std::nullopt : std::optional{found.id(0, 0)};
}

contract::outlook reader::outlook()
{
    return outlook_from(talk_.run(sql::outlook::text, outlook_arguments(front_, world_)));
}

std::vector<pause_record> reader::pauses()
{
    const auto found = talk_.run(sql::pauses::text);
    std::vector<pause_record> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back({.topic = std::string(found.text(row, 0)), .since = found.time(row, 1)});
    return result;
}

arguments outlook_arguments(const frontier& front, const environment& world)
{
    arguments with;
    set_now(with, sql::outlook::now, world);
    // What an application holds at the moment is nothing to do at once: it is looked at again soon.
    const auto tables = front.tables(); // first: a position of others does no harm
    with.set(sql::outlook::tables, tables)
        .set(sql::outlook::low, front.low())
        .set_flag(sql::outlook::arrivals, !front.leaves_chores(world.clock->monotonic()));
    return with;
}

contract::outlook outlook_from(const rows& found)
{
    contract::outlook result;
    for (int row = 0; row < found.size(); ++row) {
        auto topic = std::string(found.text(row, 1));
        const auto value = found.integer(row, 2);
        switch (found.integer(row, 0)) {
        case 0:
            result.due = value != 0;
            if (!found.is_null(row, 3))
                result.next = std::max(duration{found.integer(row, 3)}, duration::zero());
            break;
        case 1:
            result.parked.push_back(
                {std::move(topic), reason_of(value).value_or(park_reason::no_handler)});
            break;
        default: result.pauses.push_back({std::move(topic), timestamp{duration{value}}});
        }
    }
    return result;
}

} // namespace posthorn::postgres
