// An open SQLite store: one connection that writes, a few that read.
#pragma once

#include "store/contract/backend.hpp"
#include "store/contract/connection_pool.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/sqlite/lease_desk.hpp"
#include "store/sqlite/location.hpp"

#include <memory>

namespace posthorn::sqlite {

class backend final : public contract::backend {
public:
    backend(location where, const store_options& options);

    std::unique_ptr<contract::session> begin() override;
    std::unique_ptr<contract::session> read() override;
    batch claim(const contract::claim_request& request) override;
    contract::lease_desk& leases() override { return leases_; }
    std::unique_ptr<contract::bell> make_bell() override;

    const posthorn::environment& environment() const override { return options_.environment; }
    const posthorn::limits& limits() const override { return options_.limits; }

private:
    using connections = contract::connection_pool<connection>;

    /// A connection to the file that is at the store's path now.
    [[nodiscard]] connections::turn take(connections& from);
    std::unique_ptr<owned_session> session_for(owned_session::purpose why);
    std::unique_ptr<contract::bell> bell_of(std::shared_ptr<contract::doorbell> here,
                                            duration look_every) const;

    location where_;
    store_options options_;
    connections writers_;
    connections readers_;

    // Shared with the bells, which may be around for longer.
    std::shared_ptr<contract::doorbell> doorbell_ = std::make_shared<contract::doorbell>();

    lease_desk leases_;
};

} // namespace posthorn::sqlite
