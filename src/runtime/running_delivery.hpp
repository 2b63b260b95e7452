// One message in the hands of a worker, from its claim to its settlement.
#pragma once

#include "runtime/handler_table.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/delivery.hpp>
#include <posthorn/time.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace posthorn::runtime {

struct running_delivery {
    delivery message;
    const route* to = nullptr;
    std::string store;     ///< the name of one of many
    std::string group;     ///< of the limit per key
    std::size_t place = 0; ///< among the open ones of its batch

    /// What is ambient around its handler and hooks. Shared with all that goes on in it.
    std::shared_ptr<correlation> scope = {};

    std::stop_source stop;
    std::atomic<bool> lost = false; ///< the lease is gone

    bool has_begun = false; ///< its handler, and from then on it stays the same
    monotonic_time began{};
    std::optional<monotonic_time> deadline = {};
    std::optional<monotonic_time> held_until = {}; ///< then its lease may run out
};

} // namespace posthorn::runtime
