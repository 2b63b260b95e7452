// The stores that the suite runs on: one line each.
#include "conformance/mariadb_under_test.hpp"
#include "conformance/postgres_under_test.hpp"
#include "conformance/sqlite_under_test.hpp"

namespace posthorn::conformance {

const std::vector<store_kind>& store_kinds()
{
    static const std::vector<store_kind> all{
        {"sqlite_file", {}, &make_sqlite_file},
        {"sqlite_memory", {false, false, false}, &make_sqlite_memory},
        {"postgres", postgres_features, &make_postgres},
        {"mariadb", mariadb_features, &make_mariadb},
    };
    return all;
}

} // namespace posthorn::conformance
