// Lists of numbers as JSON: how a statement takes a list of any length where it has no arrays.
#pragma once

#include "store/contract/join_table.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace posthorn::contract {

[[nodiscard]] inline std::string json_of(std::span<const std::int64_t> numbers)
{
    std::string result = "[";
    result.reserve(numbers.size() * 8 + 2);
    for (const auto each : numbers) {
        if (result.size() > 1)
            result += ',';
        result += std::to_string(each);
    }
    return result + ']';
}

/// Pairs of a join's number and a message's.
[[nodiscard]] inline std::string json_of(std::span<const join_row> rows)
{
    std::string result = "[";
    for (const auto& each : rows) {
        if (result.size() > 1)
            result += ',';
        result += '[' + std::to_string(each.join) + ',' + std::to_string(each.seq) + ']';
    }
    return result + ']';
}

/// What can change of each join: number, state, ended_by, expected, attached, completed, failed,
/// reopened, deadline_at.
[[nodiscard]] inline std::string json_of(std::span<const join_record> joins)
{
    const auto or_null = [](const std::optional<std::int64_t>& value) {
        return value ? std::to_string(*value) : std::string("null");
    };
    std::string result = "[";
    for (const auto& each : joins) {
        if (result.size() > 1)
            result += ',';
        const auto deadline = each.deadline_at
                                  ? std::optional{each.deadline_at->time_since_epoch().count()}
                                  : std::nullopt;
        result += '[' + std::to_string(each.position) + ',' +
                  std::to_string(static_cast<int>(each.state)) + ',' +
                  std::to_string(static_cast<int>(each.ended_by)) + ',' + or_null(each.expected) +
                  ',' + std::to_string(each.attached) + ',' + std::to_string(each.completed) + ',' +
                  std::to_string(each.failed) + ',' + std::to_string(each.reopened) + ',' +
                  or_null(deadline) + ']';
    }
    return result + ']';
}

} // namespace posthorn::contract
