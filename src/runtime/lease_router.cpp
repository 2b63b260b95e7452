// Leases in many stores, by the names of their stores or in whichever has one.
#include <posthorn/error.hpp>
#include <posthorn/leases.hpp>

#include <fmt/format.h>

#include <utility>

namespace posthorn {

std::optional<lease> lease_factory::try_acquire(std::string_view name, const lease_options& how)
{
    auto where = among_.store(store_name_);
    return try_lease(where, name, how);
}

std::optional<lease> lease_factory::acquire(std::string_view name, duration at_most,
                                            const lease_options& how, const std::stop_token& stop)
{
    auto where = among_.store(store_name_);
    return acquire_lease(where, name, at_most, how, stop);
}

std::vector<lease_factory> lease_router::all() const
{
    std::vector<lease_factory> result;
    for (auto& each : among_.list())
        result.emplace_back(router_, std::move(each.name));
    return result;
}

lease_factory lease_router::in(std::string_view store_name)
{
    if (!router_.knows(store_name))
        throw error(error_code::not_found,
                    fmt::format("there is no store called '{}'", store_name));
    return {router_, std::string(store_name)};
}

std::optional<lease_router::located> lease_router::try_in_any(std::string_view name,
                                                              const lease_options& how)
{
    for (auto& each : all()) {
        try {
            if (auto got = each.try_acquire(name, how))
                return located{.store = each.store_name(), .held = std::move(*got)};
        } catch (const error& failure) {
            if (failure.code() == error_code::invalid_argument)
                throw; // in every store
            if (const auto& log = among_.environment().log)
                log(log_level::warning, fmt::format("no lease '{}' from the store '{}': {}", name,
                                                    each.store_name(), failure.what()));
        }
    }
    return std::nullopt;
}

} // namespace posthorn
