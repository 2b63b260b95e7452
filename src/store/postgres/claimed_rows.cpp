// What the statements that claim answer with, as batches.
#include "store/postgres/claimed_rows.hpp"

#include "core/validation.hpp"
#include "store/postgres/row_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace posthorn::postgres {
namespace {

delivery read_delivery(const rows& found, int row)
{
    delivery result;
    result.receipt = {.id = found.id(row, 2),
                      .position = found.integer(row, 1),
                      .fence = fence{found.integer(row, 15)},
                      .ordinal = static_cast<std::uint32_t>(found.integer(row, 0) - 1)};
    result.created_at = found.time(row, 3);
    result.due_at = found.time(row, 4);
    result.topic = found.text(row, 5);
    result.payload = found.text(row, 6);
    result.ordering_key = found.text(row, 7);
    result.correlation_id = found.text(row, 8);
    result.causation_id = found.text(row, 9);
    result.headers = core::headers_from_json(found.text(row, 10));
    result.priority = static_cast<int>(found.integer(row, 11));
    result.started = static_cast<row_state>(found.integer(row, 13)) == row_state::started;
    result.attempt = static_cast<int>(found.integer(row, 12)) + (result.started ? 0 : 1);
    result.expires_at = found.time_or_none(row, 14);
    return result;
}

// The members of a plain batch have much in common.
delivery read_plain_delivery(const rows& found, int row)
{
    delivery result;
    result.receipt = {.id = found.id(row, 1),
                      .position = found.integer(row, 0),
                      .fence = fence{found.integer(row, 8)}};
    result.created_at = result.due_at = found.time(row, 2);
    result.topic = found.text(row, 3);
    result.payload = found.text(row, 4);
    result.correlation_id = found.text(row, 5);
    result.causation_id = found.text(row, 6);
    result.headers = core::headers_from_json(found.text(row, 7));
    result.started = true;
    return result;
}

} // namespace

batch read_batch(const rows& found, duration lease)
{
    batch result;
    if (found.empty())
        return result;
    result.fence = fence{found.integer(0, 15)};
    result.claimed_at = found.time(0, 16);
    result.lease_until = result.claimed_at + lease;
    result.deliveries.resize(static_cast<std::size_t>(found.size()));
    for (int row = 0; row < found.size(); ++row) {
        auto next = read_delivery(found, row);
        result.deliveries[next.receipt.ordinal] = std::move(next);
    }
    return result;
}

batch read_plain_batch(const rows& found, duration lease)
{
    batch result;
    if (found.empty())
        return result;
    result.fence = fence{found.integer(0, 8)};
    result.claimed_at = found.time(0, 9);
    result.lease_until = result.claimed_at + lease;
    result.deliveries.reserve(static_cast<std::size_t>(found.size()));
    for (int row = 0; row < found.size(); ++row)
        result.deliveries.push_back(read_plain_delivery(found, row));
    std::ranges::sort(result.deliveries, {},
                      [](const delivery& each) { return each.receipt.position; });
    for (std::uint32_t ordinal = 0; auto& each : result.deliveries)
        each.receipt.ordinal = ordinal++;
    return result;
}

batch read_handed_batch(const rows& found, int row, duration lease)
{
    batch result;
    result.fence = fence{found.integer(row, 8)};
    result.claimed_at = found.time(row, 9);
    result.lease_until = result.claimed_at + lease;
    result.deliveries.push_back(read_plain_delivery(found, row));
    return result;
}

void note_plain(const rows& claimed, frontier& front, incarnation tables)
{
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = 0;
    std::int64_t count = 0;
    for (int row = 0; row < claimed.size(); ++row) {
        if (claimed.integer(row, 17) != 0)
            continue;
        first = std::min(first, claimed.integer(row, 1));
        last = std::max(last, claimed.integer(row, 1));
        ++count;
    }
    if (count > 0)
        front.claimed(first, last, count, tables);
}

} // namespace posthorn::postgres
