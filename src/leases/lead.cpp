// Leader election: whoever has the lease leads, and is told when it does not any more.
#include "leases/waiting.hpp"
#include <posthorn/leases.hpp>

namespace posthorn {

std::size_t lead(store& where, std::string_view name, const leadership& work,
                 const std::stop_token& until, const lease_options& how)
{
    std::size_t terms = 0;
    while (!until.stop_requested()) {
        auto term = wait_for_lease(where, name, std::nullopt, how, until);
        if (!term)
            continue;
        ++terms;
        std::stop_source over;
        const auto stop = [&] { over.request_stop(); };
        const std::stop_callback lost(term->stop_token(), stop);
        const std::stop_callback ended(until, stop);
        work(*term, over.get_token());
    }
    return terms;
}

} // namespace posthorn
