// What the tests of leases stand on: a fresh store, and leases that are there or fail the test.
#pragma once

#include "conformance/conformance_test.hpp"
#include <posthorn/leases.hpp>
#include <posthorn/testing/leases.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::conformance {

/// A lease that does not renew itself.
[[nodiscard]] inline lease_options idle_for(duration length)
{
    return {.length = length, .renew = false};
}

/// The table of leases, as a client of the database calls it.
[[nodiscard]] inline std::string table_of_leases(const store_under_test& which)
{
    const auto url = which.url();
    const auto schema = url.find("schema=");
    return schema == std::string::npos ? "posthorn_lease" : url.substr(schema + 7) + ".lease";
}

template <typename Fixture>
class leasing : public Fixture {
protected:
    static lease taken(store& where, std::string_view name, const lease_options& how = {})
    {
        auto got = try_lease(where, name, how);
        if (!got)
            throw std::runtime_error("somebody has the lease " + std::string(name));
        return std::move(*got);
    }

    lease take(std::string_view name, const lease_options& how = {})
    {
        return taken(this->db(), name, how);
    }

    lease_record find(std::string_view name)
    {
        auto found = find_lease(this->db(), name);
        if (!found)
            throw std::runtime_error("no lease " + std::string(name));
        return *found;
    }

    std::vector<std::string> names(const lease_filter& which = {})
    {
        std::vector<std::string> result;
        for (const auto& each : list_leases(this->db(), which))
            result.push_back(each.name);
        return result;
    }

    /// As somebody with a database client would.
    void delete_rows()
    {
        this->under_test()
            .connect(this->world())
            ->execute("DELETE FROM " + table_of_leases(this->under_test()));
    }
};

using leasing_test = leasing<conformance_test>;

} // namespace posthorn::conformance
