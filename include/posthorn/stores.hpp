// Many stores: where they come from, and the way to one of them by its name.
//
//     ph::worker tenants(ph::discover(list_tenants), {.concurrency = 16});
//     ph::enqueue(router.store("tenant-42"), order_placed{7});
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

namespace contract {
class premises;
struct reach;
} // namespace contract

/// A store and the name by which it is known, wherever it is.
struct named_store {
    std::string name;
    std::string url = {};                   ///< it is opened when it is needed
    std::optional<posthorn::store> at = {}; ///< instead of a URL: a store that is open already
};

/// What the stores of one provider share.
struct sharing {
    store_options open = {};          ///< for those that are opened by their URL
    std::size_t open_files_max = 128; ///< SQLite files and MariaDB stores that stay open
    std::size_t connections_max = 7;  ///< per PostgreSQL database, for all of its schemas
};

/// Where stores come from: one, a list, or whatever a function finds. Copies share what they open.
/// Threads: safe to use from any.
class store_provider {
public:
    using lister = std::function<std::vector<named_store>()>;

    /// One store that is open already.
    store_provider(store one); // NOLINT: meant to convert

    /// For `stores` and `discover`. `every` of zero: the list never changes.
    store_provider(lister list, duration every, std::shared_ptr<contract::premises> with,
                   posthorn::environment world);

    /// All stores that there are now, in their order; what the function finds is asked anew.
    /// Throws: `error` with `invalid_argument` if two have the same name, or one has none; and what
    /// the function throws.
    [[nodiscard]] std::vector<named_store> list() const;

    /// How often the list is worth reading again; zero: never.
    [[nodiscard]] duration refresh_every() const noexcept;

    [[nodiscard]] const posthorn::environment& environment() const noexcept;

    /// How a store is reached; for Posthorn's own components.
    [[nodiscard]] contract::reach way_to(const named_store& which) const;

private:
    struct state;
    std::shared_ptr<state> state_;
};

/// A list of stores that stays as it is.
[[nodiscard]] store_provider stores(std::vector<named_store> list, const sharing& how = {});

struct discovery {
    duration every = std::chrono::minutes{5};
    sharing with = {};
};

/// Stores that come and go: `list` is asked for all of them from time to time. One that is listed
/// again under its name is kept, with all that is in hand; one that is not is drained.
/// A function that throws changes nothing, and is asked again.
[[nodiscard]] store_provider discover(store_provider::lister list, const discovery& how = {});

/// The way to one of many stores. Threads: safe to use from any.
class router {
public:
    explicit router(store_provider among);

    /// The store of this name, open. One that is unknown is looked for in a fresh list first, one
    /// that is known in a list not older than the provider's `refresh_every`: stores move, and
    /// leave. While there is no newer list, the last one counts.
    /// Lifetime: the handle keeps it open; do not keep thousands.
    /// Throws: `error` with `not_found` if there is no such store.
    [[nodiscard]] posthorn::store store(std::string_view key);
    [[nodiscard]] posthorn::store store(const uuid& key);

    [[nodiscard]] bool knows(std::string_view key);

private:
    struct state;
    std::shared_ptr<state> state_;
};

} // namespace posthorn
