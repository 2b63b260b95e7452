// Leases: one holder at a time, for as long as it renews, with a number that tells old holders from
// new ones.
//
//     if (auto lease = ph::try_lease(store, "reindex"))  // "somebody else has it" is an answer
//         reindex(lease->stop_token());
//
// Nobody can promise that a holder does nothing after it has lost its lease: it may have been
// stopped for a minute between looking and acting. What it writes is therefore written under its
// fence (`write_fenced`), which is refused when the lease has passed on. See docs/guides/leases.md.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/store.hpp>
#include <posthorn/stores.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn {

struct lease_options {
    /// How long it is granted for, on the database's clock: so long others wait for a holder that
    /// died.
    duration length = std::chrono::seconds{30};

    /// How much sooner than the database its holder thinks that it is over; a tenth of the length
    /// unless given, and at most a quarter.
    std::optional<duration> margin = {};

    /// Whether it is renewed by itself, when 60 % of its length are over.
    bool renew = true;

    /// Who has it, for people who look: up to 255 bytes.
    std::string holder = {};
};

/// A lease that was granted. It is renewed, by a thread of its own, and released when it goes.
/// Threads: safe to use from any; but do not let it go in a callback of its stop token.
class lease {
public:
    struct state;
    explicit lease(std::unique_ptr<state> granted);
    lease(lease&&) noexcept;
    lease& operator=(lease&&) noexcept;
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease();

    [[nodiscard]] const std::string& name() const noexcept;

    /// Larger than that of everybody who had this lease before, whatever was released or deleted.
    [[nodiscard]] posthorn::fence fence() const noexcept;

    /// Whether it is still held: neither released, nor lost, nor so old that others may have it.
    /// Once it is not it never is again. Asks a clock and not the database.
    [[nodiscard]] bool is_held() const;

    /// Throws: `error` with `lease_lost` unless it is held.
    void throw_if_lost() const;

    /// Asks to stop when the lease is lost, and before others may have it.
    [[nodiscard]] std::stop_token stop_token() const noexcept;

    /// For how long it is held if nothing is heard of the database any more; zero: it is not.
    [[nodiscard]] duration left() const;

    /// How long until it renews itself; nothing: it does not, or is not held.
    [[nodiscard]] std::optional<duration> renews_in() const;

    /// Renews it now. False: it is lost.
    /// Throws: `error` if the store cannot be reached; it is still held until its time is over.
    bool renew();

    /// Gives it back, so that others need not wait. False: it had been lost.
    /// Throws: `error` if the store cannot be reached; others then wait until it is over.
    bool release();

private:
    std::unique_ptr<state> state_; ///< its threads know where it is, also when the lease moves
};

/// Takes a lease. Nothing: somebody else has it.
/// Throws: `error` with `invalid_argument` for a name that is empty or longer than 255 bytes.
[[nodiscard]] std::optional<lease> try_lease(store& where, std::string_view name,
                                             const lease_options& how = {});

/// The same, and waits for it: until it is released or its holder's time is over, at most so long,
/// or until told to stop. Does not ask the database meanwhile, where it can ring.
/// Throws: `error` if the store cannot be reached when the time is over.
[[nodiscard]] std::optional<lease> acquire_lease(store& where, std::string_view name,
                                                 duration at_most, const lease_options& how = {},
                                                 const std::stop_token& stop = {});

/// Keeps a lease from passing on until the transaction ends; so what it writes is written before
/// anything that the next holder does. Both are in the same database. Other transactions wait for
/// this one, so keep it short.
/// False: the lease has passed on, or is over. Roll back then.
[[nodiscard]] bool hold_lease(transaction& tx, const lease& which);
[[nodiscard]] bool hold_lease(transaction& tx, std::string_view name, fence number);

/// Does `work` in a transaction that commits only under the fence of this lease. May run it again
/// after a deadlock.
/// Throws: `error` with `lease_lost`, and nothing was written; and what `work` throws.
void write_fenced(store& where, const lease& under,
                  const std::function<void(transaction& tx)>& work);

/// Where fences are only known as numbers, such as in another database than that of the lease:
/// remembers the largest one that has come for a name. False: a larger one has come before, so this
/// is of somebody who had the lease earlier. Roll back then.
[[nodiscard]] bool pass_fence(transaction& tx, std::string_view name, fence number);

/// What a leader does: it returns soon after the token asks it to, because the lease is lost or
/// everything ends.
using leadership = std::function<void(lease& term, const std::stop_token& stop)>;

/// Runs `work` whenever this process is elected: whoever has the lease leads. Returns when told to
/// stop; when `work` returns earlier it gives the lease back, and stands for election again.
/// Troubles with the store are logged, and it tries again.
/// Returns: how often it was elected. Throws: what `work` throws.
std::size_t lead(store& where, std::string_view name, const leadership& work,
                 const std::stop_token& until, const lease_options& how = {});

/// How a lease stands, as the database sees it.
struct lease_record {
    std::string name;
    std::string holder; ///< of the last one
    posthorn::fence fence{};
    bool held = false;
    duration length = {};
    duration left = {}; ///< zero unless it is held
    timestamp acquired_at;
    timestamp renewed_at;
};

[[nodiscard]] std::optional<lease_record> find_lease(store& where, std::string_view name);

struct lease_filter {
    bool held = false;      ///< only those that somebody has
    std::string after = {}; ///< where the next page starts: behind this name
    std::size_t limit = 100;
};

/// One page of leases, in the order of their names.
[[nodiscard]] std::vector<lease_record> list_leases(store& where, const lease_filter& which = {});

/// For operators: takes a lease from whoever has it, or only from the holder with this fence. Its
/// holder learns of it when it renews; until then only its fenced writes are refused.
/// Returns: the fence of that holder; nothing if nobody had it.
std::optional<fence> take_lease_away(store& where, std::string_view name,
                                     std::optional<fence> from = {});

/// Grants the leases of one of many stores, which it opens when it is needed.
/// Threads: safe to use from any.
class lease_factory {
public:
    lease_factory(router among, std::string store_name)
        : among_(std::move(among)), store_name_(std::move(store_name))
    {}

    [[nodiscard]] const std::string& store_name() const noexcept { return store_name_; }

    /// As the functions above. Throws: `error` if the store cannot be opened.
    [[nodiscard]] std::optional<lease> try_acquire(std::string_view name,
                                                   const lease_options& how = {});
    [[nodiscard]] std::optional<lease> acquire(std::string_view name, duration at_most,
                                               const lease_options& how = {},
                                               const std::stop_token& stop = {});

private:
    router among_;
    std::string store_name_;
};

/// Leases in many stores. Threads: safe to use from any.
class lease_router {
public:
    explicit lease_router(store_provider among) : among_(among), router_(std::move(among)) {}

    /// One for each store that there is now, in their order.
    [[nodiscard]] std::vector<lease_factory> all() const;

    /// Of the store of this name. Throws: `error` with `not_found` if there is none.
    [[nodiscard]] lease_factory in(std::string_view store_name);

    struct located {
        std::string store;
        lease held;
    };

    /// In the first store in which it is free; stores in trouble are logged and passed over. This
    /// spreads work over stores. It keeps nobody out: others may have the same name elsewhere.
    [[nodiscard]] std::optional<located> try_in_any(std::string_view name,
                                                    const lease_options& how = {});

private:
    store_provider among_;
    router router_;
};

} // namespace posthorn
