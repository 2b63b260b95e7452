// What the log is told of a transaction that settles or takes back.
#pragma once

#include "store/contract/message_queue.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/id.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace posthorn {

/// A transaction of our own may be run again, or fail: its lines wait until it is committed.
class lines_of_work {
public:
    explicit lines_of_work(const environment& world) : world_(world) {}

    /// The transaction begins, perhaps once more.
    void begin() { lines_.clear(); }
    void tell() const
    {
        for (const auto& [level, line] : lines_)
            world_.log(level, line);
    }

    /// Never more than the id: what a handler calls its error may hold a piece of the payload.
    void dead(const message_id& id)
    {
        if (world_.log.takes(log_level::error))
            lines_.emplace_back(log_level::error, fmt::format("message {} is dead", to_string(id)));
    }

    void reaped(const contract::overdue_batch& which)
    {
        if (world_.log.takes(log_level::warning))
            lines_.emplace_back(log_level::warning,
                                fmt::format("took back {} messages of batch {}: its lease had run "
                                            "out",
                                            which.open.size(),
                                            static_cast<std::int64_t>(which.fence)));
    }

private:
    const environment& world_;
    std::vector<std::pair<log_level, std::string>> lines_;
};

} // namespace posthorn
