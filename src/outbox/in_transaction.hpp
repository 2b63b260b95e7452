// One transaction of our own around a piece of work, run again when the database gave it up.
#pragma once

#include "store/contract/backend.hpp"
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

/// The same for what is done to batches.
template <typename Work>
auto in_work(store& where, Work&& work)
{
    return contract::run_again(where.environment(), [&] {
        transaction tx{where.backend().begin_work(), where.share()};
        auto result = work(tx);
        tx.commit();
        return result;
    });
}

} // namespace posthorn
