// Enqueueing: nothing here waits for anybody, except for equal dedup keys and equal ids.
#include "store/mariadb/writer.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/mariadb/find_seq.hpp"
#include "store/mariadb/places.hpp"
#include "store/mariadb/savepoint.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace posthorn::mariadb {
namespace {

constexpr std::size_t rows_at_once = 1'000;
constexpr std::size_t numbers_at_once = 20'000; // less than half a mebibyte of digits
constexpr std::size_t id_start_bytes = 11;

timestamp instant(const contract::moment& when, timestamp now)
{
    const auto* from_now = std::get_if<duration>(&when);
    return from_now != nullptr ? now + *from_now : std::get<timestamp>(when);
}

timestamp due_at(const contract::new_message& what, timestamp now)
{
    return what.due ? std::max(now, instant(*what.due, now)) : now;
}

bool is_plain(const contract::new_message& what, timestamp now)
{
    return what.ordering_key.empty() && what.priority == 0 && due_at(what, now) == now &&
           !what.expiry.has_value();
}

// Needs neither the time nor anything else from the server before it is inserted.
bool takes_two_inserts(const contract::new_message& what)
{
    return !what.id && what.ordering_key.empty() && what.dedup_key.empty() && what.priority == 0 &&
           !what.due && !what.expiry;
}

std::size_t bytes_of(const contract::new_message& what)
{
    return what.payload.size() + what.headers_json.size() + what.topic.size() +
           what.ordering_key.size() + what.correlation_id.size() + what.causation_id.size() + 128;
}

[[noreturn]] void refuse_known_id(const message_id& id)
{
    throw error(error_code::constraint,
                fmt::format("a message with the id {} exists already", to_string(id)));
}

using statement = sql::insert_message;

// A longer topic is written in two parts: the first column cannot be widened quickly.
constexpr std::size_t topic_part_bytes = 255;

void bind_message(query& row, const contract::new_message& what, std::string_view id_start,
                  std::optional<timestamp> now)
{
    const std::string_view topic = what.topic;
    const auto first_part = std::min(topic.size(), topic_part_bytes);
    row.bind_bytes(statement::id_start, id_start)
        .bind(statement::now, now)
        .bind_bytes(statement::topic, topic.substr(0, first_part))
        .bind_bytes_or_null(statement::topic_rest, topic.substr(first_part))
        .bind_bytes_or_null(statement::ordering_key, what.ordering_key)
        .bind_bytes_or_null(statement::correlation_id, what.correlation_id)
        .bind_bytes_or_null(statement::causation_id, what.causation_id)
        .bind_bytes_or_null(statement::headers, what.headers_json)
        .bind_bytes(statement::payload, what.payload);
}

std::string_view id_start_of(const contract::new_message& what, const message_id& id)
{
    const auto bytes = query::bytes_of(id);
    return what.id ? bytes : bytes.substr(0, id_start_bytes);
}

} // namespace

std::vector<enqueued> writer::insert(std::span<const contract::new_message> messages)
{
    savepoint together(db_);
    auto result = insert_or_end(messages);
    together.keep();
    return result;
}

std::vector<enqueued> writer::insert_or_end(std::span<const contract::new_message> messages)
{
    has_inserted_ = true;
    if (messages.size() == 1 && takes_two_inserts(messages.front()))
        return {insert_plain(messages.front())};
    return insert_all(messages);
}

enqueued writer::insert_plain(const contract::new_message& what)
{
    const auto& world = db_.environment();
    const auto start = contract::make_numbered_id(0, world.clock->now(), *world.random);
    std::int64_t seq = 0;
    {
        auto row = db_.use(statement::text);
        bind_message(row, what, id_start_of(what, start), world.clock->database_time());
        row.step();
        seq = row.integer(0);
    }
    db_.use(sql::add_ready::text).bind(sql::add_ready::seq, seq).run();
    return {{contract::with_number(start, seq), seq}, false};
}

std::vector<enqueued> writer::insert_all(std::span<const contract::new_message> messages)
{
    const auto now = db_.now();
    std::vector<std::size_t> first_of_same; // per message, where its dedup key stands first
    const auto known = find_duplicates(messages, now, first_of_same);
    pointers added;
    std::vector<std::size_t> place_of(messages.size()); // among those that are added
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (known[i] || first_of_same[i] != i)
            continue;
        place_of[i] = added.size();
        added.push_back(&messages[i]);
    }
    const auto where = add_messages(added, now);
    add_rows(added, where, now);
    remember_dedup_keys(added, where, now);

    std::vector<enqueued> result;
    result.reserve(messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const bool repeats = first_of_same[i] != i;
        result.push_back(known[i] ? enqueued{*known[i], true}
                                  : enqueued{where[place_of[first_of_same[i]]], repeats});
    }
    return result;
}

// Takes hold of the dedup keys, in their order, so that two bulk enqueues never wait for each
// other. Gives the earlier messages that are still inside their window.
std::vector<std::optional<locator>> writer::find_duplicates(
    std::span<const contract::new_message> messages, timestamp now,
    std::vector<std::size_t>& first_of_same)
{
    std::vector<std::optional<locator>> result(messages.size());
    first_of_same.resize(messages.size());
    std::map<std::pair<std::string_view, std::string_view>, std::vector<std::size_t>> by_key;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        first_of_same[i] = i;
        if (!messages[i].dedup_key.empty())
            by_key[{messages[i].topic, messages[i].dedup_key}].push_back(i);
    }
    for (const auto& [key, positions] : by_key) {
        db_.use(sql::open_dedup::text)
            .bind_bytes(sql::open_dedup::topic, key.first)
            .bind_bytes(sql::open_dedup::dedup_key, key.second)
            .run();
        auto row = db_.use(sql::find_dedup::text);
        row.bind_bytes(sql::find_dedup::topic, key.first)
            .bind_bytes(sql::find_dedup::dedup_key, key.second);
        const bool is_known = row.step() && row.time(2) > now;
        for (const auto i : positions) {
            first_of_same[i] = positions.front();
            if (is_known)
                result[i] = locator{row.id(0), row.integer(1)};
        }
    }
    return result;
}

std::vector<locator> writer::add_messages(const pointers& messages, timestamp now)
{
    const auto& world = db_.environment();
    std::vector<message_id> ids;
    ids.reserve(messages.size());
    for (const auto* each : messages) {
        ids.push_back(each->id ? *each->id : contract::make_numbered_id(0, now, *world.random));
        if (each->id && find_seq(db_, *each->id))
            refuse_known_id(*each->id);
    }
    std::vector<locator> result;
    result.reserve(messages.size());
    const auto bytes_max = messages.size() > 1 ? db_.statement_bytes_max() : 0;
    while (result.size() < messages.size()) {
        const auto first = result.size();
        auto row = db_.use(statement::text);
        std::size_t bytes = 0;
        auto next = first;
        do {
            bytes += bytes_of(*messages[next]);
            bind_message(row, *messages[next], id_start_of(*messages[next], ids[next]), now);
            row.end_row();
            ++next;
        } while (next < messages.size() && next - first < rows_at_once &&
                 bytes + bytes_of(*messages[next]) <= bytes_max);
        while (row.step() && result.size() < next) {
            const auto at = result.size();
            const auto seq = row.integer(0);
            result.push_back(
                {messages[at]->id ? ids[at] : contract::with_number(ids[at], seq), seq});
        }
        if (result.size() != next)
            throw error(error_code::unsupported,
                        "the server does not say which numbers it gave; Posthorn needs MariaDB "
                        "10.6 or newer");
    }
    return result;
}

void writer::add_rows(const pointers& messages, const std::vector<locator>& where, timestamp now)
{
    std::vector<std::int64_t> plain;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (is_plain(*messages[i], now))
            plain.push_back(where[i].position);
        if (!messages[i]->id)
            continue;
        try {
            db_.use(sql::add_own_id::text)
                .bind(sql::add_own_id::id, where[i].id)
                .bind(sql::add_own_id::seq, where[i].position)
                .run();
        } catch (const error& failure) {
            if (failure.code() == error_code::constraint)
                refuse_known_id(where[i].id);
            throw;
        }
    }
    for (auto rest = std::span<const std::int64_t>(plain); !rest.empty();) {
        const auto some = rest.first(std::min(rest.size(), numbers_at_once));
        const auto list = json_list(some);
        db_.use(sql::add_ready_list::text).bind_ascii(sql::add_ready_list::list, list).run();
        rest = rest.subspan(some.size());
    }
    if (plain.size() == messages.size())
        return;
    using queued = sql::queue_new;
    auto row = db_.use(queued::text);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto& what = *messages[i];
        if (is_plain(what, now))
            continue;
        row.bind(queued::seq, where[i].position)
            .bind(queued::place, number(what.ordering_key.empty() ? place::ready : place::arrived))
            .bind(queued::urgency, std::int64_t{-what.priority})
            .bind(queued::due_at, due_at(what, now))
            .bind(queued::expires_at,
                  what.expiry ? std::optional{instant(*what.expiry, now)} : std::nullopt)
            .bind_bytes_or_null(queued::ordering_key, what.ordering_key)
            .end_row();
    }
    row.run();
}

void writer::remember_dedup_keys(const pointers& messages, const std::vector<locator>& where,
                                 timestamp now)
{
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto& what = *messages[i];
        if (what.dedup_key.empty())
            continue;
        using remember = sql::remember_dedup;
        db_.use(remember::text)
            .bind_bytes(remember::topic, what.topic)
            .bind_bytes(remember::dedup_key, what.dedup_key)
            .bind(remember::id, where[i].id)
            .bind(remember::seq, where[i].position)
            .bind(remember::expires_at, now + what.dedup_window)
            .run();
    }
}

} // namespace posthorn::mariadb
