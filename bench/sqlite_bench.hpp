// The SQLite part of the bench.
#pragma once

#include "bench/figures.hpp"

#include <cstddef>
#include <string>

namespace bench {

struct sqlite_plan {
    std::size_t rounds = 5;
    std::size_t single_messages = 2'000; ///< of one per transaction: each is a sync to disk
    std::size_t bulk_messages = 100'000;
    std::size_t long_drain_messages = 1'000'000; ///< 0: leave the long drain out
};

/// Runs Posthorn and raw SQL in turns, in files below the current folder.
void run_sqlite(const sqlite_plan& plan, figures& into);

} // namespace bench
