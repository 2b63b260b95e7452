// Noticing that another process has written, without a lock and without reading a table.
#pragma once

#include "store/sqlite/location.hpp"

#include <cstdint>
#include <memory>

namespace posthorn::sqlite {

/// Watches one file on a connection of its own, opened when first needed. Threads: one at a time.
class watch {
public:
    explicit watch(location where);

    /// Whether any other connection has committed since the last question; yes to the first.
    /// Throws: `error` if the file cannot be read; the next question opens it again.
    [[nodiscard]] bool changed();

private:
    location where_;
    std::unique_ptr<connection> db_;
    std::int64_t seen_ = 0;
};

} // namespace posthorn::sqlite
