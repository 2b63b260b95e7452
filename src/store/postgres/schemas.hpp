// Many schemas of PostgreSQL databases in one process.
#pragma once

#include "store/contract/premises.hpp"
#include <posthorn/store.hpp>

#include <cstddef>
#include <memory>

namespace posthorn::postgres {

/// Schemas of the same database share `connections_max` connections, and one more that listens.
[[nodiscard]] std::shared_ptr<contract::premises> make_schemas(const store_options& options,
                                                               std::size_t connections_max);

} // namespace posthorn::postgres
