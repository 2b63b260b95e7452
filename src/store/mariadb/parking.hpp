// Messages that are put aside until somebody takes their topic.
#pragma once

#include "store/contract/outlook.hpp"
#include "store/mariadb/connection.hpp"
#include <posthorn/delivery.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace posthorn::mariadb {

/// A parked message's row in `queue` has a place of its own; this keeps the list by topics beside.
class parking {
public:
    struct aside {
        std::int64_t seq = 0;
        park_reason why{};
    };

    explicit parking(connection& db) : db_(db) {}

    /// Lists messages whose rows in the queue have become parked.
    void add(const std::vector<aside>& which);

    /// Takes messages that end off the list.
    void remove(const std::vector<std::int64_t>& seqs);

    /// The topics that have parked messages, and why the first of each is. Locks nothing.
    [[nodiscard]] std::vector<contract::outlook::parked_topic> topics();

    /// Which messages to take back: those of these topics, behind a position.
    struct selection {
        std::span<const std::string> topics;
        std::int64_t after = 0;
    };

    /// Whether there are any. Locks nothing.
    [[nodiscard]] bool any_of(const selection& which);

    /// Makes up to `limit` of these messages ready, the lowest numbers first. What others
    /// have locked it passes over; it waits for nobody. Returns: how many.
    std::size_t unpark(const selection& which, std::size_t limit);

private:
    struct topic_start {
        std::int64_t first = 0;
        std::string_view topic;
    };
    std::vector<topic_start> starts_of(const selection& which);
    std::vector<std::int64_t> lock_first(const selection& which, std::size_t limit);

    connection& db_;
};

[[nodiscard]] std::int64_t number(park_reason why) noexcept;
[[nodiscard]] park_reason park_reason_of(std::int64_t number) noexcept;

} // namespace posthorn::mariadb
