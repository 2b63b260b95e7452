// Leases on MariaDB.
#pragma once

#include "store/contract/lease_desk.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/mariadb/connection.hpp"

#include <functional>
#include <memory>

namespace posthorn::mariadb {

class leases final : public contract::lease_table {
public:
    explicit leases(connection& db) : db_(db) {}

    bool hold(std::string_view name, posthorn::fence fence) override;
    bool pass(std::string_view name, posthorn::fence fence) override;
    std::size_t remove_unused(duration older_than, std::size_t limit) override;

private:
    connection& db_;
};

class lease_desk final : public contract::lease_desk {
public:
    /// Calls with a connection on which every statement commits by itself, and again with another
    /// one if the server was away.
    using turn = std::function<void(const std::function<void(connection&)>&)>;

    explicit lease_desk(turn with) : with_(std::move(with)) {}

    contract::lease_answer acquire(const contract::lease_request& what) override;
    bool renew(const contract::held_lease& which, duration length) override;
    bool release(const contract::held_lease& which) override;
    std::optional<posthorn::fence> take_away(std::string_view name,
                                             std::optional<posthorn::fence> from) override;
    std::optional<lease_record> find(std::string_view name) override;
    std::vector<lease_record> list(const lease_filter& which) override;
    std::unique_ptr<contract::bell> make_bell(std::string_view name) override;

private:
    turn with_;
    // Shared with the bells, which may be around for longer.
    std::shared_ptr<contract::doorbell> released_ = std::make_shared<contract::doorbell>();
};

} // namespace posthorn::mariadb
