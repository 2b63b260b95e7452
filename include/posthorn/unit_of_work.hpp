// A unit of work: what a request changes, and the events that its entities raise, in one
// transaction.
//
//     struct user {
//         ph::domain_events events;
//         void verify() { events.raise(user_verified{id}); }
//     };
//
//     ph::store_unit_of_work work(store);
//     users.add(work, user);       // a repository only says what is to be written, and how
//     work.save_changes();         // rows and events, all or nothing
//
// Entities need nothing to inherit from: they have a `domain_events` that they hand out. Their
// events leave them only after the commit; after a failure they are still there.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_type.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn {

/// The header by which an event says when it occurred: microseconds since 1970, UTC.
inline constexpr std::string_view occurred_at_header = "posthorn-occurred-at";

/// Something that happened to an entity. Its type name is the message's topic.
struct domain_event {
    posthorn::message message;
    timestamp occurred_at;
    enqueue_options delivery = {};
};

/// The events that an entity has raised and nobody has saved yet, in their order.
class domain_events {
public:
    /// When an event occurred is the moment of its `raise`, told by this clock; unless it is given,
    /// by the machine's. An entity knows no store, so it is not a store's clock.
    explicit domain_events(std::shared_ptr<const posthorn::clock> clock = {})
        : clock_(std::move(clock))
    {}

    template <typed_message Type>
    void raise(const Type& what, enqueue_options how = {})
    {
        raise(to_message(what), std::move(how));
    }
    void raise(message what, enqueue_options how = {});

    [[nodiscard]] const std::vector<domain_event>& pending() const noexcept { return pending_; }
    [[nodiscard]] bool empty() const noexcept { return pending_.empty(); }

    /// Forgets the first `count` of them.
    void clear(std::size_t count = SIZE_MAX);

private:
    std::shared_ptr<const posthorn::clock> clock_;
    std::vector<domain_event> pending_;
};

/// What a request changes. Repositories `write` and `track`; whoever is responsible for the request
/// saves. Threads: one at a time.
class unit_of_work {
public:
    /// Writes rows through the transaction and says how many. May be called again if the database
    /// gave the transaction up.
    using writer = std::function<std::size_t(transaction&)>;

    virtual ~unit_of_work() = default;

    /// Has rows written when the changes are saved, in the order of these calls.
    virtual void write(writer what) = 0;

    /// Saves what these events hold by then; the same ones may be tracked again.
    /// Lifetime: they must outlive the saving and, in a given transaction, its end as far as that
    /// is told here.
    virtual void track(domain_events& of) = 0;

    /// Runs after the commit, and never without one. What it throws is logged, not passed on: the
    /// changes are there.
    virtual void on_commit(std::function<void()> action) = 0;

    /// Everything or nothing. Returns: how many rows the writers wrote, and events.
    /// Throws: what a writer throws, and `error`; then everything is as it was before, and can be
    /// saved again unless the error is in doubt.
    virtual std::size_t save_changes() = 0;

    /// The same, unless it is told to stop before it has begun: then `error` with `stopped` is
    /// thrown. Where the database gave the transaction up, a stop also keeps it from being run
    /// again. A commit that has begun is waited for.
    virtual std::size_t save_changes(const stop_request& stop);
};

/// On a store: each saving is a transaction of its own. On a transaction of the caller: saving
/// writes into it, and the caller says how it ended.
class store_unit_of_work final : public unit_of_work {
public:
    explicit store_unit_of_work(store where);

    /// Lifetime: `tx` must outlive it.
    explicit store_unit_of_work(transaction& tx);

    void write(writer what) override;
    void track(domain_events& of) override;
    void on_commit(std::function<void()> action) override;
    std::size_t save_changes() override { return save_changes(stop_request{}); }
    std::size_t save_changes(const stop_request& stop) override;

    /// For a given transaction: it has committed. Events leave their entities, actions run.
    void committed();

    /// For a given transaction: it was rolled back. What was saved in it can be saved again.
    void rolled_back();

private:
    struct tracked {
        domain_events* events;
        std::size_t saved = 0; ///< so many of its first ones are in the open transaction
    };

    std::size_t save_in(transaction& tx);
    void finish();
    void log_failed_action(std::string_view why) const;

    std::optional<store> store_;
    transaction* given_ = nullptr;
    environment world_;
    std::vector<writer> writers_;
    std::size_t written_ = 0; ///< so many of the first writers have run in the open transaction
    std::vector<tracked> tracked_;
    std::vector<std::function<void()>> actions_;
};

} // namespace posthorn
