// What is known of a message from outside decides what another delivery of it does.
#include "store/contract/inbox_book.hpp"

#include "core/planted.hpp"

#include <fmt/format.h>

namespace posthorn::contract {
namespace {

// Where the message that carries a row stands.
enum class carrier {
    none,    // nobody can start it any more: it was called off, or is gone
    waiting, // nobody has it
    held,    // a worker has it
    dead,
};

carrier carrier_of(const std::optional<held_message>& message)
{
    if (!message)
        return carrier::none;
    switch (message->state) {
    case message_state::ready:
    case message_state::waiting:
    case message_state::parked: return carrier::waiting;
    case message_state::claimed: return carrier::held;
    case message_state::dead: return carrier::dead;
    case message_state::done:
    case message_state::cancelled:
    case message_state::expired: break;
    }
    return carrier::none;
}

} // namespace

// A different content under the same id is the sender's affair: the first one counts.
bool inbox_book::warn_if_different(const inbox_record& row, std::string_view content_hash) const
{
    if (content_hash.empty() || row.content_hash.empty() || row.content_hash == content_hash)
        return false;
    if (world_.log)
        world_.log(log_level::warning,
                   fmt::format("inbox: message '{}' of '{}' came again with another content",
                               row.from.id, row.from.source));
    return true;
}

inbox_receipt inbox_book::add(const inbox_record& row, const new_message& what)
{
    const auto added = writer_.insert({&what, 1}).front();
    const std::int64_t seq = added.position;
    followed_.follow({&seq, 1});
    table_.carry(row.position, added);
    return {.answer = inbox_answer::added, .message = added.id};
}

// The message is held before the row is locked, as whoever ends messages does. A row that got its
// message in between is held in the other order: then two may meet, and one is run again.
inbox_receipt inbox_book::enqueue(const inbound& from, const new_message& what,
                                  std::string_view content_hash)
{
    std::optional<message_id> holding;
    std::optional<held_message> message;
    if (const auto known = table_.find(from)) {
        if (known->state == inbox_state::done && !core::enqueues_what_is_done)
            return {.answer = inbox_answer::known,
                    .message = known->message,
                    .hash_differs = warn_if_different(*known, content_hash)};
        if (known->message) {
            holding = known->message;
            message = followed_.hold(*known->message);
        }
    }
    const auto [row, fresh] = table_.see(from, content_hash);
    if (fresh)
        return add(row, what);
    const bool differs = warn_if_different(row, content_hash);
    if (row.state == inbox_state::done && !core::enqueues_what_is_done)
        return {.answer = inbox_answer::known, .message = row.message, .hash_differs = differs};
    if (row.message && row.message != holding)
        message = followed_.hold(*row.message);

    inbox_receipt result;
    switch (row.message ? carrier_of(message) : carrier::none) {
    case carrier::none: result = add(row, what); break;
    case carrier::held: result = {.answer = inbox_answer::held, .message = row.message}; break;
    case carrier::waiting:
    case carrier::dead:
        table_.replace(message->seq, what.payload, what.headers_json);
        result = {.answer = inbox_answer::replaced, .message = row.message};
        break;
    }
    result.hash_differs = differs;
    return result;
}

bool inbox_book::see(const inbound& from, std::string_view content_hash)
{
    // Once it is done it stays so, and needs no lock.
    auto known = table_.find(from);
    bool fresh = false;
    if (!known || known->state != inbox_state::done) {
        auto seen = table_.see(from, content_hash);
        fresh = seen.fresh;
        known = std::move(seen.row);
    }
    if (!fresh)
        (void)warn_if_different(*known, content_hash); // its log line is all there is to it
    return known->state == inbox_state::done;
}

bool inbox_book::finish(const inbound& from, std::string_view content_hash)
{
    if (table_.finish(from, content_hash))
        return true;
    if (!content_hash.empty())
        if (const auto known = table_.find(from))
            (void)warn_if_different(*known, content_hash);
    return false;
}

void inbox_book::undo(const inbound& from)
{
    const auto [row, fresh] = table_.see(from, {});
    if (!fresh)
        table_.mark(row.position, inbox_state::seen);
}

mark_answer inbox_book::mark(const inbound& from, inbox_state as)
{
    const auto [row, fresh] = table_.see(from, {});
    if (row.state == inbox_state::done || (row.state == as && !fresh))
        return mark_answer::known;
    if (row.message)
        return mark_answer::queued;
    if (row.state != as)
        table_.mark(row.position, as);
    return mark_answer::marked;
}

bool inbox_book::revive(const inbound& from, duration delay)
{
    const auto known = table_.find(from);
    if (!known || known->state != inbox_state::dead)
        return false;
    if (known->message) // whoever redrives it says so, and the row follows
        return keeper_.redrive(*known->message, delay);
    const auto [row, fresh] = table_.see(from, {});
    if (row.state != inbox_state::dead || row.message)
        return false;
    table_.mark(row.position, inbox_state::seen);
    return true;
}

} // namespace posthorn::contract
