// Enqueueing: one statement for messages without dedup keys, whatever their number.
#include "store/postgres/writer.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/postgres/key_heads.hpp"
#include "store/postgres/row_state.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace posthorn::postgres {
namespace {

using contract::new_message;

[[noreturn]] void refuse_known_id()
{
    throw error(error_code::constraint, "a message with one of these ids exists already");
}

[[noreturn]] void refuse_known_id(const message_id& id)
{
    throw error(error_code::constraint,
                fmt::format("a message with the id {} exists already", to_string(id)));
}

std::vector<enqueued> answers(const rows& inserted, std::span<const new_message> messages)
{
    if (static_cast<std::size_t>(inserted.size()) != messages.size()) {
        if (messages.size() == 1)
            refuse_known_id(messages.front().id.value_or(message_id{}));
        refuse_known_id();
    }
    std::vector<enqueued> result;
    result.reserve(messages.size());
    for (int i = 0; i < inserted.size(); ++i)
        result.push_back({{inserted.id(i, 1), inserted.integer(i, 0)}, false});
    return result;
}

bool has_dedup_key(const new_message& what)
{
    return !what.dedup_key.empty();
}

bool has_own_id(const new_message& what)
{
    return what.id.has_value();
}

// Locks on dedup keys are taken in one order everywhere, so that two bulks never wait for each
// other. The order of the messages is that of their numbers, which are drawn first.
std::vector<std::size_t> in_locking_order(std::span<const new_message> messages)
{
    std::vector<std::size_t> order(messages.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) {
        const auto& each = messages[i];
        return has_dedup_key(each) ? std::pair(each.topic, each.dedup_key)
                                   : std::pair<std::string_view, std::string_view>{};
    });
    return order;
}

} // namespace

bool takes_one_statement(std::span<const contract::new_message> messages)
{
    return std::ranges::none_of(messages, has_dedup_key) &&
           (messages.size() == 1 || std::ranges::none_of(messages, has_own_id));
}

std::vector<enqueued> insert_at_once(conversation& talk,
                                     std::span<const contract::new_message> messages,
                                     const environment& world)
{
    const auto [which, with] = insertion_of(messages, world, ringing::yes);
    return answers(talk.run_alone(which, with), messages);
}

std::vector<enqueued> writer::insert(std::span<const contract::new_message> messages)
{
    added_ = true;
    if (std::ranges::any_of(messages, has_own_id) &&
        (messages.size() > 1 || has_dedup_key(messages.front())))
        return insert_or_undo(messages);
    return insert_together(messages);
}

// An id that exists is only noticed when other rows are in already.
std::vector<enqueued> writer::insert_or_undo(std::span<const contract::new_message> messages)
{
    talk_.run(sql::begin_many::text);
    try {
        auto result = insert_together(messages);
        talk_.run(sql::end_many::text);
        return result;
    } catch (const error& failure) {
        if (!failure.poisons_connection())
            talk_.run_all({{sql::undo_many::text, {}}, {sql::end_many::text, {}}});
        throw;
    }
}

std::vector<enqueued> writer::insert_together(std::span<const contract::new_message> messages)
{
    if (std::ranges::any_of(messages, has_dedup_key))
        return insert_one_by_one(messages);
    const auto [which, with] = insertion_of(messages, world_, bell_);
    return answers(talk_.run(which, with), messages);
}

std::vector<enqueued> writer::insert_one_by_one(std::span<const contract::new_message> messages)
{
    std::vector<enqueued> result(messages.size());
    std::vector<std::int64_t> numbers;
    if (messages.size() > 1) {
        arguments how_many;
        how_many.set(sql::draw_numbers::count, static_cast<std::int64_t>(messages.size()));
        const auto drawn = talk_.run(sql::draw_numbers::text, how_many);
        for (int row = 0; row < drawn.size(); ++row)
            numbers.push_back(drawn.integer(row, 0));
    }
    for (const auto i : in_locking_order(messages)) {
        const auto& each = messages[i];
        if (!has_dedup_key(each)) {
            const auto [which, with] = insertion_of(each, numbers[i], world_, bell_);
            result[i] = answers(talk_.run(which, with), {&each, 1}).front();
            continue;
        }
        arguments key;
        key.set_text(sql::find_dedup::topic, each.topic)
            .set_text(sql::find_dedup::dedup_key, each.dedup_key);
        const auto with = deduplicated(
            each, numbers.empty() ? std::nullopt : std::optional{numbers[i]}, world_, bell_);
        const auto both =
            talk_.run_all({{sql::insert_deduplicated::text, with}, {sql::find_dedup::text, key}});
        const auto& added = both[0];
        const auto& known = both[1];
        if (!added.empty() && !added.yes(0, 2))
            refuse_known_id(each.id.value_or(message_id{}));
        if (!added.empty())
            result[i] = {{added.id(0, 1), added.integer(0, 0)}, false};
        else if (!known.empty())
            result[i] = {{known.id(0, 0), known.integer(0, 1)}, true};
        else
            throw error(error_code::serialization,
                        "the earlier message of this dedup key vanished meanwhile: run the "
                        "transaction again",
                        {.retryable = true, .statement = "insert_deduplicated"});
    }
    return result;
}

cancel_answer writer::cancel(message_id id)
{
    arguments which;
    which.set(sql::find_message::hint, contract::number_in(id)).set(sql::find_message::id, id);
    // A message that a worker claims between our look and our grip is looked at again.
    for (;;) {
        const auto found = talk_.run(sql::find_message::text, which);
        if (found.empty())
            return cancel_answer::not_found;
        const auto state = static_cast<row_state>(found.integer(0, 1));
        if (state != row_state::ready && state != row_state::claimed)
            return cancel_answer::too_late;
        const auto seq = found.integer(0, 0);
        const auto key = std::string(found.text(0, 3));
        const auto number = fence{found.integer(0, 2)};
        if (state == row_state::claimed)
            lock_batch(talk_, number);
        key_heads heads(talk_, world_);
        if (!key.empty())
            heads.lock({key});
        using statement = sql::call_off;
        arguments with;
        set_now(with, statement::now, world_);
        with.set(statement::state, postgres::number(row_state::cancelled))
            .set(statement::seqs, std::span(&seq, 1))
            .set(statement::from_state, postgres::number(state))
            .set(statement::fence, number);
        const bool ended = !talk_.run(statement::text, with).empty();
        if (ended && state == row_state::claimed)
            leave_batch(talk_, number, 1);
        if (!key.empty())
            heads.move_on({key});
        if (!ended)
            continue;
        const contract::ended_message called_off{.position = seq, .as = message_state::cancelled};
        follower_.ended({&called_off, 1});
        return cancel_answer::cancelled;
    }
}

} // namespace posthorn::postgres
