// The outbox publisher: settles where each message comes from, then enqueues it.
//
// Its number is the last thing that a message gets. What is refused has taken none; what turns out
// to be known already, or is rolled back, gives its number back.
#include "core/lineage.hpp"
#include "outbox/checked_messages.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/publisher.hpp>

#include <algorithm>
#include <deque>
#include <utility>

namespace posthorn {
namespace {

// Options whose lineage is settled, and the headers of ours that go with them.
struct settled_message {
    const message& what;
    enqueue_options how;
    headers own;
    bool numbered = false;

    [[nodiscard]] to_check checkable() const { return {.what = what, .how = how, .own = &own}; }

    // Else it is new for sure, and so is its number.
    [[nodiscard]] bool may_be_known() const { return !how.dedup_key.empty() || how.id; }
};

settled_message settled(const message& what, const enqueue_options& given, const correlation* scope,
                        const environment& world)
{
    settled_message result{.what = what, .how = given, .own = {}};
    auto& how = result.how;
    auto from = core::resolve_lineage(
        {.id = how.id, .correlation_id = how.correlation_id, .causation_id = how.causation_id},
        how.headers, scope, core::id_maker::store, world);
    how.id = from.id;
    how.correlation_id = std::move(from.correlation_id);
    how.causation_id = std::move(from.causation_id);
    result.numbered = from.numbered;
    if (!from.sequence.empty())
        result.own.emplace(header::correlation_sequence, std::move(from.sequence));
    return result;
}

class publication {
public:
    publication(const environment& world, const limits& bounds, std::size_t count)
        : scope_(correlation_scope::current()), world_(world), numbers_(scope_), bounds_(bounds)
    {
        results_.reserve(count);
    }
    publication(const publication&) = delete;
    publication& operator=(const publication&) = delete;

    void add(const message& what, const enqueue_options& how)
    {
        messages_.push_back(settled(what, how, scope_.get(), world_));
    }

    /// Refuses before anything is numbered or written.
    void check() const
    {
        const message_check check(world_, bounds_);
        for (const auto& each : messages_)
            check.check(each.checkable());
    }

    /// Inserts by `insert`, all at once if it can: of a message that may be known already it must
    /// be seen whether it is, before the next one gets a number.
    template <typename Insert>
    std::vector<enqueued> run(const Insert& insert)
    {
        results_.clear();
        for (std::size_t from = 0; from < messages_.size();) {
            const auto to = end_of_piece(from);
            auto added = insert(numbered(from, to));
            if (messages_[to - 1].numbered && added.back().duplicate)
                numbers_.give_back_last();
            std::ranges::move(added, std::back_inserter(results_));
            from = to;
        }
        return std::move(results_);
    }

    [[nodiscard]] bool is_one_piece() const { return end_of_piece(0) == messages_.size(); }

    [[nodiscard]] bool has_joins() const
    {
        return std::ranges::any_of(messages_, [](const auto& each) { return !!each.how.join; });
    }

    void give_back() noexcept { numbers_.give_back(); }

    /// What was taken until now; what is taken next counts anew.
    [[nodiscard]] core::drawn_numbers taken()
    {
        return std::exchange(numbers_, core::drawn_numbers(scope_));
    }

private:
    [[nodiscard]] std::size_t end_of_piece(std::size_t from) const
    {
        while (from + 1 < messages_.size() &&
               !(messages_[from].numbered && messages_[from].may_be_known()))
            ++from;
        return from + 1;
    }

    std::span<const contract::new_message> numbered(std::size_t from, std::size_t to)
    {
        piece_.emplace(world_, bounds_, to - from);
        for (; from < to; ++from) {
            auto& each = messages_[from];
            if (each.numbered)
                each.own.insert_or_assign(std::string(header::correlation_sequence),
                                          numbers_.draw());
            piece_->add_checked(each.checkable());
        }
        return piece_->values;
    }

    std::shared_ptr<correlation> scope_; // shared with the scope
    const environment& world_;
    core::drawn_numbers numbers_;
    const limits& bounds_;
    std::deque<settled_message> messages_; // which leaves its elements where they are
    std::optional<checked_messages> piece_;
    std::vector<enqueued> results_;
};

// In a transaction whose end decides about the numbers, too. What was inserted before something
// failed is part of it, so that nothing is given back here.
std::vector<enqueued> publish_in(transaction& tx, publication& what)
{
    struct hand_over {
        transaction& tx;
        publication& what;
        ~hand_over() { tx.depends_on_this(what.taken()); }
    };
    auto& session = tx.session();
    const hand_over at_end{tx, what};
    return what.run([&](std::span<const contract::new_message> messages) {
        return insert_and_attach(session, messages);
    });
}

std::vector<enqueued> publish_alone(store& where, publication& what)
{
    if (what.has_joins() || !what.is_one_piece())
        return in_transaction(where, [&](transaction& tx) { return publish_in(tx, what); });
    try {
        return what.run([&](std::span<const contract::new_message> messages) {
            return contract::run_again(where.environment(),
                                       [&] { return where.backend().insert(messages); });
        });
    } catch (const error& failure) {
        if (!failure.in_doubt())
            what.give_back();
        throw;
    }
}

} // namespace

outbox_publisher::outbox_publisher(store where) : store_(std::move(where)) {}

enqueued outbox_publisher::publish(transaction& tx, const message& what, const enqueue_options& how)
{
    auto& session = tx.session();
    publication only(session.environment(), session.limits(), 1);
    only.add(what, how);
    only.check();
    return publish_in(tx, only).front();
}

std::vector<enqueued> outbox_publisher::publish(transaction& tx, std::span<const outgoing> messages)
{
    auto& session = tx.session();
    publication all(session.environment(), session.limits(), messages.size());
    for (const auto& [what, how] : messages)
        all.add(what, how);
    all.check();
    return publish_in(tx, all);
}

enqueued outbox_publisher::publish(const message& what, const enqueue_options& how)
{
    auto& backend = store_.backend();
    publication only(backend.environment(), backend.limits(), 1);
    only.add(what, how);
    only.check();
    return publish_alone(store_, only).front();
}

std::vector<enqueued> outbox_publisher::publish(std::span<const outgoing> messages)
{
    if (messages.empty())
        return {};
    auto& backend = store_.backend();
    publication all(backend.environment(), backend.limits(), messages.size());
    for (const auto& [what, how] : messages)
        all.add(what, how);
    all.check();
    return publish_alone(store_, all);
}

} // namespace posthorn
