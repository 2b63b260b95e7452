// Lists of stores, and finding one in them by its name.
#include "store/contract/premises.hpp"
#include <posthorn/error.hpp>
#include <posthorn/stores.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace posthorn {

struct store_provider::state {
    lister list;
    duration every;
    std::shared_ptr<contract::premises> with; ///< shared: opened stores outlive their provider
    posthorn::environment world;
};

store_provider::store_provider(store one)
    : store_provider([one] { return std::vector<named_store>{{.name = "the store", .at = one}}; },
                     duration::zero(), nullptr, one.environment())
{}

store_provider::store_provider(lister list, duration every,
                               std::shared_ptr<contract::premises> with,
                               posthorn::environment world)
    : state_(
          std::make_shared<state>(state{std::move(list), every, std::move(with), std::move(world)}))
{
    if (!state_->list)
        throw error(error_code::invalid_argument, "the function that lists stores is empty");
    if (every < duration::zero())
        throw error(error_code::invalid_argument, "stores cannot be discovered that often");
}

std::vector<named_store> store_provider::list() const
{
    auto all = state_->list();
    std::set<std::string_view> names;
    for (const auto& each : all) {
        if (each.name.empty())
            throw error(error_code::invalid_argument, "a store in the list has no name");
        if (!names.insert(each.name).second)
            throw error(error_code::invalid_argument,
                        fmt::format("two stores in the list are called '{}'", each.name));
    }
    return all;
}

duration store_provider::refresh_every() const noexcept
{
    return state_->every;
}

const posthorn::environment& store_provider::environment() const noexcept
{
    return state_->world;
}

contract::reach store_provider::way_to(const named_store& which) const
{
    if (which.at)
        return {.open = [backend = which.at->share()] { return backend; }};
    if (!state_->with)
        throw error(error_code::invalid_argument,
                    fmt::format("the store '{}' has neither a URL nor a handle", which.name));
    return state_->with->way_to(which.url);
}

struct router::state {
    explicit state(store_provider from) : among(std::move(from)) {}

    struct looked_up {
        std::optional<named_store> found;
        bool is_fresh = false; ///< not so old that it may have moved
        std::uint64_t lists = 0;
    };

    store_provider among;
    std::mutex listing; ///< of whoever asks for another list; the others go on with the last one
    std::mutex mutex;   ///< of all that follows
    std::map<std::string, named_store, std::less<>> known;
    std::optional<monotonic_time> listed_at;
    std::uint64_t lists = 0;

    looked_up look_up(std::string_view key)
    {
        const auto every = among.refresh_every();
        const auto now = among.environment().clock->monotonic();
        const std::lock_guard lock(mutex);
        const auto at = known.find(key);
        return {.found = at == known.end() ? std::nullopt : std::optional{at->second},
                .is_fresh = listed_at && (every == duration::zero() || now - *listed_at < every),
                .lists = lists};
    }

    void list_again()
    {
        std::map<std::string, named_store, std::less<>> next;
        for (auto& each : among.list()) {
            auto name = each.name;
            next.emplace(std::move(name), std::move(each));
        }
        const std::lock_guard lock(mutex);
        known = std::move(next);
        listed_at = among.environment().clock->monotonic();
        ++lists;
    }

    // A store may have moved, or left.
    void list_unless_somebody_does()
    {
        const std::unique_lock turn(listing, std::try_to_lock);
        if (!turn)
            return;
        try {
            list_again();
        } catch (const std::exception&) {
            // What was known stays, and is asked for again after the same time.
            const std::lock_guard lock(mutex);
            listed_at = among.environment().clock->monotonic();
        }
    }

    std::optional<named_store> find(std::string_view key)
    {
        const auto first = look_up(key);
        const bool is_final = first.found || among.refresh_every() == duration::zero();
        if (first.is_fresh && is_final)
            return first.found;
        if (first.found) {
            list_unless_somebody_does();
            return look_up(key).found;
        }
        // A name that is not there may be new; perhaps somebody has found it meanwhile.
        const std::lock_guard turn(listing);
        const auto again = look_up(key);
        if (again.found && again.lists != first.lists)
            return again.found;
        list_again();
        return look_up(key).found;
    }

    std::size_t size()
    {
        const std::lock_guard lock(mutex);
        return known.size();
    }
};

router::router(store_provider among) : state_(std::make_shared<state>(std::move(among))) {}

store router::store(std::string_view key)
{
    const auto found = state_->find(key);
    if (!found)
        throw error(
            error_code::not_found,
            fmt::format("there is no store called '{}'; {} are known", key, state_->size()));
    return posthorn::store{state_->among.way_to(*found).open()};
}

store router::store(const uuid& key)
{
    return store(to_string(key));
}

bool router::knows(std::string_view key)
{
    return state_->find(key).has_value();
}

} // namespace posthorn
