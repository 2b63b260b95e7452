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

    /// Whether messages of these topics are parked. Locks nothing.
    [[nodiscard]] bool any_of(std::span<const std::string> topics);

    /// Makes up to `limit` messages of these topics ready, the lowest numbers first. What others
    /// have locked it passes over; it waits for nobody. Returns: how many.
    std::size_t unpark(std::span<const std::string> topics, std::size_t limit);

private:
    struct topic_start {
        std::int64_t first = 0;
        std::string_view topic;
    };
    std::vector<topic_start> starts_of(std::span<const std::string> topics);
    std::vector<std::int64_t> lock_first(std::span<const std::string> topics, std::size_t limit);

    connection& db_;
};

[[nodiscard]] std::int64_t number(park_reason why) noexcept;
[[nodiscard]] park_reason park_reason_of(std::int64_t number) noexcept;

} // namespace posthorn::mariadb
