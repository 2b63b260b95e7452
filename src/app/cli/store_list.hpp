// The stores that a command line means: URLs, patterns of files, and lists in a file.
#pragma once

#include <posthorn/stores.hpp>

#include <string>
#include <vector>

namespace posthorn::cli {

/// What was written; it may mean other stores tomorrow.
struct store_selection {
    std::vector<std::string> urls; ///< `sqlite:tenants/*.db` means all files that match
    std::string file = {};         ///< a URL per line, or `name = URL`; `#` begins a comment

    /// Whether it is one URL and nothing else.
    [[nodiscard]] bool is_one_store() const;
};

/// Throws: `error` with `invalid_argument` for a file that cannot be read or a line that is no
/// store.
[[nodiscard]] std::vector<named_store> list_stores(const store_selection& which);

} // namespace posthorn::cli
