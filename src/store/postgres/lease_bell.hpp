// Rings when a lease is released: LISTEN, on a connection of its own. Leases are released seldom,
// so nobody asks first whether anybody listens.
#pragma once

#include "store/contract/bell.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/reconnection.hpp"
#include <posthorn/environment.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace posthorn::postgres {

class lease_bell final : public contract::bell {
public:
    lease_bell(location where, environment world, std::string name);
    lease_bell(const lease_bell&) = delete;
    lease_bell& operator=(const lease_bell&) = delete;
    ~lease_bell() override;

    void arm() override;
    void disarm() noexcept override;
    bool wait(duration at_most) noexcept override;
    void wake() noexcept override;

private:
    using clock = std::chrono::steady_clock; // these waits are about threads, not about leases

    /// True: it listens from now on, and did not before.
    bool subscribe() noexcept;
    bool has_rung();
    void lose() noexcept;

    location where_;
    environment world_;
    std::string name_;
    std::unique_ptr<connection> db_;
    int waker_ = -1; ///< readable: somebody called `wake`
    reconnection connecting_;
};

} // namespace posthorn::postgres
