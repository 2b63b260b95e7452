// The ledger of skips: every test that does not run on a store, and why. Nothing else may skip.
// A test is named `suite.test`, or `suite.*` for all of a suite. Entries of stores that this build
// does not have wait for them.
#pragma once

#include <array>
#include <string_view>

namespace posthorn::conformance {

struct skip {
    std::string_view store;
    std::string_view test;
    std::string_view reason;
};

inline constexpr std::string_view nobody_else =
    "a store in memory has one handle, and nobody else can reach it";
inline constexpr std::string_view one_connection =
    "a store in memory has one connection: nothing can look at it while a transaction is open";

inline constexpr std::string_view locks_rows =
    "a server locks rows, not the whole store: errors.what_somebody_holds_is_busy asks for those";

inline constexpr std::array skips{
    skip{"sqlite_memory", "borrowing.*", nobody_else},
    skip{"sqlite_memory", "parking_in_a_loan.*", nobody_else},
    skip{"sqlite_memory", "native_handles_of_loans.*", nobody_else},
    skip{"sqlite_memory", "bells_from_elsewhere.*", nobody_else},
    skip{"sqlite_memory", "pauses.other_handles_see_them", nobody_else},
    skip{"sqlite_memory", "outlooks_beside_writers.*", one_connection},
    skip{"sqlite_memory", "sql_contract.*", nobody_else},
    skip{"sqlite_memory", "sql_topics.*", nobody_else},
    skip{"sqlite_memory", "processes.*", nobody_else},
    skip{"sqlite_memory", "key_stress.*", nobody_else},
    skip{"sqlite_memory", "isolation.*", one_connection},
    skip{"sqlite_memory", "fresh_stores.have_nothing_that_somebody_has_built_into_another",
         nobody_else},
    skip{"sqlite_memory", "interleavings.*", nobody_else},
    skip{"sqlite_memory", "join_interleavings.*", nobody_else},
    skip{"sqlite_memory", "inbox_interleavings.*", nobody_else},
    skip{"sqlite_memory", "job_interleavings.*", nobody_else},
    skip{"sqlite_memory", "borrowed_inbox.*", nobody_else},
    skip{"sqlite_memory", "lease_interleavings.*", nobody_else},
    skip{"sqlite_memory", "waiting_for_leases.the_database_is_hardly_asked_meanwhile", nobody_else},
    skip{"sqlite_memory", "leases.a_fence_grows_when_somebody_deletes_the_row", nobody_else},
    skip{"sqlite_memory", "concurrency.workers_with_handles_of_their_own_share_a_store",
         nobody_else},
    skip{"sqlite_memory", "errors.a_store_that_stays_locked_is_busy", nobody_else},
    skip{"sqlite_memory", "errors.a_busy_store_works_again_once_it_is_free", nobody_else},
    skip{"sqlite_memory", "errors.what_somebody_holds_is_busy", nobody_else},
    skip{"sqlite_memory", "errors.a_dedup_key_that_somebody_is_using_is_busy", nobody_else},
    skip{"postgres", "errors.a_store_that_stays_locked_is_busy", locks_rows},
    skip{"postgres", "errors.a_busy_store_works_again_once_it_is_free", locks_rows},
    skip{"mariadb", "errors.a_store_that_stays_locked_is_busy", locks_rows},
    skip{"mariadb", "errors.a_busy_store_works_again_once_it_is_free", locks_rows},
};

} // namespace posthorn::conformance
