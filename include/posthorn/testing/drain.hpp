// Running a worker inside a test: to the point where nothing is left to do, without sleeping.
#pragma once

#include <posthorn/testing/store_for_tests.hpp>
#include <posthorn/worker.hpp>

namespace posthorn::testing {

/// Handles all that is due now, and what becomes due by it: the next of an ordering key, what
/// handlers enqueue, retries without a delay. Returns when all of it is settled.
run_report drain(worker& who);

/// Drains, moves the clock to the next moment at which something is due, drains again, and so on
/// until `length` has passed. Retries, delays, expiries and leases of dead workers all run, in
/// their order; hours take milliseconds. The worker is one of this store's.
run_report drain_for(worker& who, const store_for_tests& where, duration length);

/// The same until nothing will become due by itself any more.
/// Throws: `error` with `invalid_argument` if that is not so after `at_most`, as with a
/// message that is tried again for ever.
run_report drain_to_the_end(worker& who, const store_for_tests& where,
                            duration at_most = std::chrono::hours{24 * 365});

} // namespace posthorn::testing
