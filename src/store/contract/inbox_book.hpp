// The inbox, written once for all engines: what a delivery from outside means, given what is known
// of it. Locks are taken in the order message, row of the inbox.
#pragma once

#include "store/contract/inbox_table.hpp"
#include "store/contract/join_table.hpp"
#include "store/contract/message_keeper.hpp"
#include "store/contract/message_writer.hpp"
#include <posthorn/environment.hpp>

#include <optional>
#include <string_view>

namespace posthorn::contract {

class inbox_book {
public:
    inbox_book(inbox_table& table, join_table& followed, message_writer& writer,
               message_keeper& keeper, const posthorn::environment& world)
        : table_(table), followed_(followed), writer_(writer), keeper_(keeper), world_(world)
    {}

    inbox_receipt enqueue(const inbound& from, const new_message& what,
                          std::string_view content_hash);

    /// Whether it is done.
    bool see(const inbound& from, std::string_view content_hash);

    bool finish(const inbound& from, std::string_view content_hash);
    mark_answer mark(const inbound& from, inbox_state as);
    bool revive(const inbound& from, duration delay);

    /// A row that `finish` made done, in this transaction, is only seen.
    void undo(const inbound& from);

    [[nodiscard]] inbox_table& table() noexcept { return table_; }

private:
    inbox_receipt add(const inbox_record& row, const new_message& what);
    bool warn_if_different(const inbox_record& row, std::string_view content_hash) const;

    inbox_table& table_;
    join_table& followed_;
    message_writer& writer_;
    message_keeper& keeper_;
    const posthorn::environment& world_;
};

} // namespace posthorn::contract
