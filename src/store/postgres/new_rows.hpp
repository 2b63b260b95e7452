// New messages as the parameters of the statements that insert them.
#pragma once

#include "store/contract/message_writer.hpp"
#include "store/postgres/arguments.hpp"
#include "store/postgres/connection.hpp"

#include <span>

namespace posthorn::postgres {

/// Due at once, without key, priority or expiry.
[[nodiscard]] bool is_plain(const contract::new_message& what);

/// Whether whoever sleeps is woken. A transaction that is to be prepared must not do that.
enum class ringing : bool { no, yes };

/// The statement that fits these messages, with its parameters. None of them has a dedup key.
struct insertion {
    const contract::named_statement& which;
    arguments with;
};
[[nodiscard]] insertion insertion_of(std::span<const contract::new_message> messages,
                                     const environment& world, ringing bell);

/// The same for one message whose number was drawn before.
[[nodiscard]] insertion insertion_of(const contract::new_message& what, std::int64_t seq,
                                     const environment& world, ringing bell);

/// The parameters of `insert_deduplicated`. Without a number the statement draws one.
[[nodiscard]] arguments deduplicated(const contract::new_message& what,
                                     std::optional<std::int64_t> seq, const environment& world,
                                     ringing bell);

} // namespace posthorn::postgres
