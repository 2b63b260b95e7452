// Rows of claimed messages as batches, in the columns of the statements that claim them.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/frontier.hpp"
#include <posthorn/delivery.hpp>

namespace posthorn::postgres {

/// Of `claim`.
[[nodiscard]] batch read_batch(const rows& found, duration lease);

/// Of `claim_plain`.
[[nodiscard]] batch read_plain_batch(const rows& found, duration lease);

/// Of `handed_over` and `unheard_of`: each row is a batch.
[[nodiscard]] batch read_handed_batch(const rows& found, int row, duration lease);

/// Tells the frontier of the plain ones among what `claim` has brought from these tables.
void note_plain(const rows& claimed, frontier& front, incarnation tables);

} // namespace posthorn::postgres
