// Columns of a bulk become arrays, in one pass over the messages.
#include "store/postgres/new_rows.hpp"

#include "store/postgres/statements.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace posthorn::postgres {
namespace {

using number_or_none = std::optional<std::int64_t>;

number_or_none length_of(const std::optional<contract::moment>& when)
{
    const auto* length = when ? std::get_if<duration>(&*when) : nullptr;
    return length != nullptr ? number_or_none{length->count()} : std::nullopt;
}

number_or_none instant_of(const std::optional<contract::moment>& when)
{
    const auto* instant = when ? std::get_if<timestamp>(&*when) : nullptr;
    return instant != nullptr ? number_or_none{instant->time_since_epoch().count()} : std::nullopt;
}

// The first eleven bytes of an id; the server puts the message's number behind them.
constexpr std::size_t id_start_digits = 22;

std::string id_starts(std::size_t count, const environment& world)
{
    constexpr std::string_view digits = "0123456789abcdef";
    std::string all;
    all.reserve(count * id_start_digits);
    const auto now = world.clock->now();
    for (std::size_t i = 0; i < count; ++i) {
        const auto id = uuid::version_7(now, *world.random);
        for (std::size_t at = 0; at < id_start_digits / 2; ++at) {
            all.push_back(digits[id.bytes[at] >> 4U]);
            all.push_back(digits[id.bytes[at] & 15U]);
        }
    }
    return all;
}

std::vector<std::string_view> pieces_of(const std::string& all)
{
    std::vector<std::string_view> result;
    for (std::size_t at = 0; at < all.size(); at += id_start_digits)
        result.push_back(std::string_view(all).substr(at, id_start_digits));
    return result;
}

// One column of the messages.
template <typename Value, typename Get>
std::vector<Value> column(std::span<const contract::new_message> messages, Get get)
{
    std::vector<Value> result;
    result.reserve(messages.size());
    for (const auto& each : messages)
        result.push_back(get(each));
    return result;
}

using text = std::string_view;
using contract::new_message;

// Most bulks have no such thing, and then its array need not travel.
void set_unless_empty(arguments& with, int parameter, std::span<const new_message> messages,
                      text new_message::*member)
{
    if (std::ranges::any_of(messages, [&](auto& m) { return !(m.*member).empty(); }))
        with.set(parameter, column<text>(messages, [&](auto& m) { return m.*member; }));
}

// What both bulk statements have; their parameters have the same names.
template <typename Statement>
void set_common(arguments& with, std::span<const new_message> messages, const environment& world,
                ringing bell)
{
    const auto starts = id_starts(messages.size(), world);
    set_now(with, Statement::now, world);
    with.set_flag(Statement::ring, bell == ringing::yes)
        .set(Statement::id_starts, pieces_of(starts))
        .set(Statement::topics, column<text>(messages, [](auto& m) { return m.topic; }))
        .set_bytes(Statement::payloads, column<text>(messages, [](auto& m) { return m.payload; }));
    set_unless_empty(with, Statement::correlation_ids, messages, &new_message::correlation_id);
    set_unless_empty(with, Statement::causation_ids, messages, &new_message::causation_id);
    set_unless_empty(with, Statement::headers, messages, &new_message::headers_json);
}

insertion one_plain(const new_message& what, const environment& world, ringing bell)
{
    using statement = sql::insert_one_plain;
    insertion result{statement::text, {}};
    set_now(result.with, statement::now, world);
    result.with.set_flag(statement::ring, bell == ringing::yes)
        .set_text(statement::id_start, id_starts(1, world))
        .set_text(statement::topic, what.topic)
        .set_text(statement::correlation_id, what.correlation_id)
        .set_text(statement::causation_id, what.causation_id)
        .set_text(statement::headers, what.headers_json)
        .set_text(statement::payload, what.payload);
    return result;
}

insertion many_plain(std::span<const new_message> messages, const environment& world, ringing bell)
{
    insertion result{sql::insert_plain::text, {}};
    set_common<sql::insert_plain>(result.with, messages, world, bell);
    return result;
}

insertion any(std::span<const new_message> messages, std::optional<std::int64_t> only_seq,
              const environment& world, ringing bell)
{
    const std::vector<number_or_none> numbers(messages.size(), only_seq);
    using statement = sql::insert_any;
    insertion result{statement::text, {}};
    auto& with = result.with;
    set_common<statement>(with, messages, world, bell);
    with.set(statement::seqs, std::span<const number_or_none>(numbers))
        .set_ids(statement::ids,
                 column<std::optional<message_id>>(messages, [](auto& m) { return m.id; }))
        .set(statement::priorities,
             column<std::int64_t>(messages, [](auto& m) { return std::int64_t{m.priority}; }))
        .set(statement::delays,
             column<number_or_none>(messages, [](auto& m) { return length_of(m.due); }))
        .set(statement::due_ats,
             column<number_or_none>(messages, [](auto& m) { return instant_of(m.due); }))
        .set(statement::expires_afters,
             column<number_or_none>(messages, [](auto& m) { return length_of(m.expiry); }))
        .set(statement::expires_ats,
             column<number_or_none>(messages, [](auto& m) { return instant_of(m.expiry); }))
        .set(statement::ordering_keys,
             column<text>(messages, [](auto& m) { return m.ordering_key; }));
    return result;
}

} // namespace

bool is_plain(const contract::new_message& what)
{
    return !what.id && what.ordering_key.empty() && what.dedup_key.empty() && what.priority == 0 &&
           !what.due && !what.expiry;
}

insertion insertion_of(std::span<const contract::new_message> messages, const environment& world,
                       ringing bell)
{
    if (!std::ranges::all_of(messages, is_plain))
        return any(messages, std::nullopt, world, bell);
    return messages.size() == 1 ? one_plain(messages.front(), world, bell)
                                : many_plain(messages, world, bell);
}

insertion insertion_of(const contract::new_message& what, std::int64_t seq,
                       const environment& world, ringing bell)
{
    return any({&what, 1}, seq, world, bell);
}

arguments deduplicated(const contract::new_message& what, std::optional<std::int64_t> seq,
                       const environment& world, ringing bell)
{
    using statement = sql::insert_deduplicated;
    const auto set_number = [](arguments& with, int parameter, const number_or_none& value) {
        if (value)
            with.set(parameter, *value);
    };
    arguments with;
    set_now(with, statement::now, world);
    with.set_flag(statement::ring, bell == ringing::yes)
        .set_text(statement::id_start, id_starts(1, world))
        .set_text(statement::topic, what.topic)
        .set_text(statement::dedup_key, what.dedup_key)
        .set(statement::dedup_window, what.dedup_window)
        .set(statement::priority, std::int64_t{what.priority})
        .set_text(statement::ordering_key, what.ordering_key)
        .set_text(statement::correlation_id, what.correlation_id)
        .set_text(statement::causation_id, what.causation_id)
        .set_text(statement::headers, what.headers_json)
        .set_text(statement::payload, what.payload);
    if (what.id)
        with.set(statement::id, *what.id);
    set_number(with, statement::seq, seq);
    set_number(with, statement::delay, length_of(what.due));
    set_number(with, statement::due_at, instant_of(what.due));
    set_number(with, statement::expires_after, length_of(what.expiry));
    set_number(with, statement::expires_at, instant_of(what.expiry));
    return with;
}

} // namespace posthorn::postgres
