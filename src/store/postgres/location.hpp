// Where a PostgreSQL store is: what of its URL is for libpq, and what is for us.
#pragma once

#include <posthorn/time.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace posthorn::postgres {

struct location {
    enum class pooling { none, transaction };

    std::string conninfo; ///< the URL without our own parameters; may hold a password: never shown
    std::string schema = "posthorn";
    std::size_t pool = 8;
    duration lock_timeout = std::chrono::seconds{5};
    duration statement_timeout = std::chrono::seconds{30};
    pooling pooler = pooling::none;

    /// Throws: `error` with `invalid_argument`.
    [[nodiscard]] static location parse(std::string_view url);

    /// What stands before the name of a table.
    [[nodiscard]] std::string prefix() const { return schema + "."; }
};

} // namespace posthorn::postgres
