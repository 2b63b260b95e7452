// An SQLite URL, understood.
#pragma once

#include "store/sqlite/connection.hpp"
#include <posthorn/store.hpp>

#include <string>
#include <string_view>

namespace posthorn::sqlite {

struct location {
    std::string path; ///< empty: in memory
    connection::settings settings;

    [[nodiscard]] bool in_memory() const noexcept { return path.empty(); }

    /// Throws: `error` with `invalid_argument`.
    [[nodiscard]] static location parse(std::string_view url, const store_options& options);
};

} // namespace posthorn::sqlite
