// One transaction of our own around a piece of work, run again when the database gave it up.
#pragma once

#include "store/contract/run_again.hpp"
#include <posthorn/store.hpp>

namespace posthorn {

template <typename Work>
auto in_transaction(store& where, Work&& work, const stop_request& stop = {})
{
    const auto run = [&] {
        auto tx = where.begin();
        auto result = work(tx);
        tx.commit();
        return result;
    };
    return contract::run_again(where.environment(), run, stop);
}

} // namespace posthorn
