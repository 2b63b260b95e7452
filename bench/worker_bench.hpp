// The worker next to the bare store: what handlers, threads and bookkeeping cost.
#pragma once

#include "bench/figures.hpp"

#include <cstddef>
#include <string>

namespace bench {

/// Drains as many messages by claim and acknowledge alone, and through a worker whose handler does
/// nothing; with batches of the same size on both sides, each in a store of its own.
void worker_round(const std::string& engine, const std::string& bare_url,
                  const std::string& worker_url, std::size_t messages, figures& into);

/// The bars of what `worker_round` has measured.
void expect_worker(const std::string& engine, figures& into);

/// Drains a store in a process of its own, and measures the memory it needed at its largest.
void worker_memory(const std::string& engine, const std::string& url, std::size_t messages,
                   figures& into);

/// What that process does: `posthorn-bench --drain URL`. Prints its largest resident size in KiB.
int drain_and_tell(const std::string& url);

} // namespace bench
