// Many SQLite files in one process.
#pragma once

#include "store/contract/premises.hpp"
#include <posthorn/store.hpp>

#include <cstddef>
#include <memory>

namespace posthorn::sqlite {

/// Keeps at most about `open_max` files open, and listens for all of them with one thread.
[[nodiscard]] std::shared_ptr<contract::premises> make_files(const store_options& options,
                                                             std::size_t open_max);

} // namespace posthorn::sqlite
