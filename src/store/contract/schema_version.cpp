// The three ways in which tables can be of the wrong version.
#include "store/contract/schema_version.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

namespace posthorn::contract {

void require_version(int found, int needed, std::string_view where)
{
    if (found == needed)
        return;
    if (found == 0)
        throw error(error_code::schema_missing,
                    fmt::format("there are no Posthorn tables {}; create them with `posthorn init` "
                                "or posthorn::migrate",
                                where));
    if (found < needed)
        throw error(error_code::schema_outdated,
                    fmt::format("the tables have version {}, this Posthorn needs {}; run `posthorn "
                                "migrate` or posthorn::migrate",
                                found, needed));
    throw error(error_code::schema_newer,
                fmt::format("the tables have version {}, this Posthorn knows {}: a newer Posthorn "
                            "made them; update this one",
                            found, needed));
}

} // namespace posthorn::contract
