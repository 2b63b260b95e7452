// What every diagnosis says in the same words.
#pragma once

#include <posthorn/messages.hpp>
#include <posthorn/store.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::contract {

class examination {
public:
    std::vector<finding> findings;

    void add(severity level, std::string check, std::string detail, std::string advice = {});

    /// A count that should be 0.
    void expect_none(std::int64_t count, std::string check, std::string_view otherwise,
                     std::string advice);

    /// `require` throws if the tables are not what this library needs. False: they are not.
    bool look_at_schema(int version, const std::function<void()>& require);

    /// `later`: how many of the newest messages were created later than now.
    void look_at_clock(std::int64_t later, std::string advice);

    void look_at_work(const store_stats& stats, std::int64_t overdue_batches);
};

} // namespace posthorn::contract
