// Writes that only count under the fence of whoever holds a lease.
#include "core/lease.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/lease_desk.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/leases.hpp>

#include <fmt/format.h>

namespace posthorn {

bool hold_lease(transaction& tx, std::string_view name, fence number)
{
    core::check_lease_name(name);
    return tx.session().leases().hold(name, number);
}

bool hold_lease(transaction& tx, const lease& which)
{
    return hold_lease(tx, which.name(), which.fence());
}

void write_fenced(store& where, const lease& under,
                  const std::function<void(transaction& tx)>& work)
{
    (void)in_transaction(where, [&](transaction& tx) {
        if (!hold_lease(tx, under))
            throw error(error_code::lease_lost,
                        fmt::format("the lease '{}' has passed on, or is over: nothing was written",
                                    under.name()));
        work(tx);
        return true;
    });
}

bool pass_fence(transaction& tx, std::string_view name, fence number)
{
    core::check_lease_name(name);
    return tx.session().leases().pass(name, number);
}

} // namespace posthorn
