// Leases on SQLite: in files that all processes of one machine share, on the clock that they share.
#pragma once

#include "store/contract/lease_desk.hpp"
#include "store/sqlite/connection.hpp"
#include <posthorn/environment.hpp>

#include <string>

namespace posthorn::sqlite {

/// What the kernel calls the time since it was started; another one after each start.
[[nodiscard]] std::string boot_id();

class leases final : public contract::lease_table {
public:
    leases(connection& db, const environment& world) : db_(db), world_(world) {}

    bool hold(std::string_view name, posthorn::fence fence) override;
    bool pass(std::string_view name, posthorn::fence fence) override;
    std::size_t remove_unused(duration older_than, std::size_t limit) override;

    // Within a transaction of whoever keeps the desk.
    [[nodiscard]] std::optional<duration> taken(const contract::lease_request& what);
    std::optional<posthorn::fence> grant(const contract::lease_request& what);
    bool renew(const contract::held_lease& which, duration length);
    bool release(const contract::held_lease& which);
    std::optional<posthorn::fence> take_away(std::string_view name,
                                             std::optional<posthorn::fence> from);
    std::optional<lease_record> find(std::string_view name);
    std::vector<lease_record> list(const lease_filter& which);

private:
    [[nodiscard]] std::int64_t at() const;

    connection& db_;
    const environment& world_;
};

} // namespace posthorn::sqlite
