// What users call: arguments are checked here, and each call is a transaction or part of one.
#include "core/inbox.hpp"

#include "outbox/checked_messages.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/inbox_book.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/inbox.hpp>

#include <utility>

namespace posthorn {
namespace {

mark_answer mark(transaction& tx, const inbound& from, inbox_state as)
{
    core::check_inbound(from, {});
    return tx.session().inbox().mark(from, as);
}

mark_answer mark(store& where, const inbound& from, inbox_state as)
{
    return in_transaction(where, [&](transaction& tx) { return mark(tx, from, as); });
}

} // namespace

inbox_receipt enqueue_inbound(transaction& tx, const inbound& from, const message& what,
                              const inbox_options& how)
{
    core::check_inbound(from, how.content_hash);
    if (how.delivery.id || !how.delivery.dedup_key.empty())
        throw error(error_code::invalid_argument,
                    "a message from outside is known by its source and its id there: it takes "
                    "neither an id nor a dedup key");
    const auto inside = core::from_outside(what);
    const headers origin{{std::string(inbox_source_header), from.source},
                         {std::string(inbox_id_header), from.id}};
    auto& session = tx.session();
    const checked_message checked({inside, how.delivery, &origin}, session.environment(),
                                  session.limits());
    auto result = session.inbox().enqueue(from, checked.value, how.content_hash);
    if (how.delivery.join && result.answer == inbox_answer::added)
        (void)session.joins().attach(*how.delivery.join, {&*result.message, 1});
    return result;
}

inbox_receipt enqueue_inbound(store& where, const inbound& from, const message& what,
                              const inbox_options& how)
{
    return in_transaction(where,
                          [&](transaction& tx) { return enqueue_inbound(tx, from, what, how); });
}

bool already_processed(transaction& tx, const inbound& from, std::string_view content_hash)
{
    core::check_inbound(from, content_hash);
    return tx.session().inbox().see(from, content_hash);
}

bool already_processed(store& where, const inbound& from, std::string_view content_hash)
{
    return in_transaction(
        where, [&](transaction& tx) { return already_processed(tx, from, content_hash); });
}

mark_answer mark_processing(transaction& tx, const inbound& from)
{
    return mark(tx, from, inbox_state::processing);
}

mark_answer mark_processing(store& where, const inbound& from)
{
    return mark(where, from, inbox_state::processing);
}

mark_answer mark_processed(transaction& tx, const inbound& from)
{
    return mark(tx, from, inbox_state::done);
}

mark_answer mark_processed(store& where, const inbound& from)
{
    return mark(where, from, inbox_state::done);
}

mark_answer mark_dead(transaction& tx, const inbound& from)
{
    return mark(tx, from, inbox_state::dead);
}

mark_answer mark_dead(store& where, const inbound& from)
{
    return mark(where, from, inbox_state::dead);
}

bool revive(transaction& tx, const inbound& from, duration delay)
{
    core::check_inbound(from, {});
    if (delay < duration::zero() || delay > limits::span_max)
        throw error(error_code::invalid_argument,
                    "revive: the delay must not be negative, and at most a hundred years");
    return tx.session().inbox().revive(from, delay);
}

bool revive(store& where, const inbound& from, duration delay)
{
    return in_transaction(where, [&](transaction& tx) { return revive(tx, from, delay); });
}

// What a worker has is in its hands, though the row itself says so only when it has ended.
std::optional<inbox_record> find_inbound(transaction& tx, const inbound& from)
{
    core::check_inbound(from, {});
    auto& session = tx.session();
    auto found = session.inbox().table().find(from);
    if (found && found->state == inbox_state::seen && found->message)
        if (const auto carrier = session.reader().find(*found->message);
            carrier && carrier->state == message_state::claimed)
            found->state = inbox_state::processing;
    return found;
}

std::optional<inbox_record> find_inbound(store& where, const inbound& from)
{
    auto tx = where.read();
    return find_inbound(tx, from);
}

std::vector<inbox_record> list_inbound(store& where, const inbox_filter& filter)
{
    if (filter.limit == 0)
        throw error(error_code::invalid_argument, "a page needs a limit of at least 1");
    auto tx = where.read();
    return tx.session().inbox().table().list(filter);
}

namespace inbox_detail {

bool begin_once(transaction& tx, const inbound& from, std::string_view content_hash)
{
    core::check_inbound(from, content_hash);
    return tx.session().inbox().finish(from, content_hash);
}

void undo_once(transaction& tx, const inbound& from) noexcept
{
    try {
        tx.session().inbox().undo(from);
    } catch (const error&) {
        return; // a transaction that takes no further statement cannot be committed either
    }
}

bool once_in(store& where, const std::function<bool(transaction&)>& work)
{
    return in_transaction(where, work);
}

} // namespace inbox_detail
} // namespace posthorn
