// Lists of stores, and finding one in them by its name.
#include "store/contract/premises.hpp"
#include <posthorn/error.hpp>
#include <posthorn/stores.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
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

    store_provider among;
    std::mutex mutex;
    std::map<std::string, named_store, std::less<>> known;
    bool listed = false;

    // A name that is not there may be new.
    std::optional<named_store> find(std::string_view key)
    {
        const std::lock_guard lock(mutex);
        if (const auto at = known.find(key); at != known.end())
            return at->second;
        if (listed && among.refresh_every() == duration::zero())
            return std::nullopt;
        known.clear();
        for (auto& each : among.list()) {
            auto name = each.name;
            known.emplace(std::move(name), std::move(each));
        }
        listed = true;
        const auto at = known.find(key);
        return at == known.end() ? std::nullopt : std::optional{at->second};
    }
};

router::router(store_provider among) : state_(std::make_shared<state>(std::move(among))) {}

store router::store(std::string_view key)
{
    const auto found = state_->find(key);
    if (!found)
        throw error(
            error_code::not_found,
            fmt::format("there is no store called '{}'; {} are known", key, state_->known.size()));
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
