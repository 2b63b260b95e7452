// SQLite counts the commits of others in every connection; asking for that number is all it takes.
#include "store/sqlite/watch.hpp"

#include "store/sqlite/statements.hpp"

#include <utility>

namespace posthorn::sqlite {

watch::watch(location where) : where_(std::move(where)) {}

bool watch::changed()
{
    try {
        if (db_ && !db_->is_at_its_path())
            db_.reset();
        const bool first = db_ == nullptr;
        if (first)
            db_ = std::make_unique<connection>(where_.path, connection::access::existing,
                                               where_.settings);
        auto row = db_->use(sql::data_version::text);
        row.step();
        const auto before = std::exchange(seen_, row.integer(0));
        return first || before != seen_;
    } catch (...) {
        db_.reset();
        throw;
    }
}

} // namespace posthorn::sqlite
