// Retention: finished messages are kept for a while, then removed a few at a time.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <optional>

namespace posthorn {

struct retention {
    /// Done, cancelled and expired messages are kept this long; zero: until the next cleaning.
    duration finished = std::chrono::hours{24 * 7};

    /// Dead messages are kept until purged, unless this is given.
    std::optional<duration> dead = {};

    /// Joins that have ended are kept this long, with their members; as `finished` unless given.
    std::optional<duration> joins = {};

    /// How long the inbox remembers what is done; only then can it be done again.
    duration inbox = std::chrono::hours{24 * 30};

    /// Leases that nobody has had for so long are removed; their fences grow all the same.
    duration leases = std::chrono::hours{24 * 30};

    /// How long executions of jobs are kept after their end.
    duration executions = std::chrono::hours{24 * 30};

    /// How many messages one transaction removes; small, so that no lock is held for long.
    std::size_t batch = 500;
};

struct cleaning_report {
    std::size_t finished = 0;
    std::size_t dead = 0;
    std::size_t dedup_keys = 0;
    std::size_t joins = 0; ///< and their members: rows in all
    std::size_t inbox = 0;
    std::size_t command_keys = 0; ///< that had expired
    std::size_t leases = 0;       ///< that nobody had
    std::size_t executions = 0;
};

/// Removes what has outlived its retention, batch by batch, until nothing is left to remove
/// or `batches_max` transactions have run.
cleaning_report clean(store& where, const retention& rules = {},
                      std::size_t batches_max = SIZE_MAX);

} // namespace posthorn
