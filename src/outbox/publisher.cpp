// The outbox publisher: settles where each message comes from, then enqueues it.
#include "core/lineage.hpp"
#include "outbox/checked_messages.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/session.hpp"
#include <posthorn/publisher.hpp>

#include <deque>
#include <utility>

namespace posthorn {
namespace {

// Options whose lineage is settled, and the headers of ours that go with them.
struct settled_options {
    enqueue_options how;
    headers own;
};

settled_options settled(const enqueue_options& given, correlation* scope, const environment& world)
{
    settled_options result{.how = given, .own = {}};
    auto& how = result.how;
    auto from = core::resolve_lineage(
        {.id = how.id, .correlation_id = how.correlation_id, .causation_id = how.causation_id},
        how.headers, scope, core::id_maker::store, world);
    how.id = from.id;
    how.correlation_id = std::move(from.correlation_id);
    how.causation_id = std::move(from.causation_id);
    if (!from.sequence.empty())
        result.own.emplace(header::correlation_sequence, std::move(from.sequence));
    return result;
}

class settled_messages {
public:
    settled_messages(std::span<const outgoing> messages, const environment& world,
                     const limits& bounds)
        : checked_(world, bounds, messages.size())
    {
        const auto scope = correlation_scope::current();
        for (const auto& [what, how] : messages) {
            const auto& next = options_.emplace_back(settled(how, scope.get(), world));
            checked_.add({.what = what, .how = next.how, .own = &next.own});
        }
    }

    [[nodiscard]] std::span<const contract::new_message> values() const { return checked_.values; }

private:
    std::deque<settled_options> options_; // which leaves its elements where they are
    checked_messages checked_;
};

std::vector<enqueued> insert_into(store& where, std::span<const contract::new_message> messages)
{
    if (any_joins(messages))
        return in_transaction(
            where, [&](transaction& tx) { return insert_and_attach(tx.session(), messages); });
    return contract::run_again(where.environment(),
                               [&] { return where.backend().insert(messages); });
}

} // namespace

outbox_publisher::outbox_publisher(store where) : store_(std::move(where)) {}

enqueued outbox_publisher::publish(transaction& tx, const message& what, const enqueue_options& how)
{
    auto& session = tx.session();
    const auto& world = session.environment();
    const auto mine = settled(how, correlation_scope::current().get(), world);
    const checked_message only({.what = what, .how = mine.how, .own = &mine.own}, world,
                               session.limits());
    return insert_and_attach(session, {&only.value, 1}).front();
}

std::vector<enqueued> outbox_publisher::publish(transaction& tx, std::span<const outgoing> messages)
{
    if (messages.empty())
        return {};
    auto& session = tx.session();
    const settled_messages all(messages, session.environment(), session.limits());
    return insert_and_attach(session, all.values());
}

enqueued outbox_publisher::publish(const message& what, const enqueue_options& how)
{
    auto& backend = store_.backend();
    const auto& world = backend.environment();
    const auto mine = settled(how, correlation_scope::current().get(), world);
    const checked_message only({.what = what, .how = mine.how, .own = &mine.own}, world,
                               backend.limits());
    return insert_into(store_, {&only.value, 1}).front();
}

std::vector<enqueued> outbox_publisher::publish(std::span<const outgoing> messages)
{
    if (messages.empty())
        return {};
    auto& backend = store_.backend();
    const settled_messages all(messages, backend.environment(), backend.limits());
    return insert_into(store_, all.values());
}

} // namespace posthorn
