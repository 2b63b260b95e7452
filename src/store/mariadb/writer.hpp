// Enqueueing and cancelling on MariaDB.
#pragma once

#include "store/contract/message_writer.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/mariadb/connection.hpp"

#include <optional>
#include <vector>

namespace posthorn::mariadb {

class writer final : public contract::message_writer {
public:
    writer(connection& db, contract::settlement_follower& follower) : db_(db), follower_(follower)
    {}

    std::vector<enqueued> insert(std::span<const contract::new_message> messages) override;
    cancel_answer cancel(message_id id) override;

    /// The same, for a transaction that ends when this fails: nothing has to be undone here.
    std::vector<enqueued> insert_or_end(std::span<const contract::new_message> messages);

    [[nodiscard]] bool has_inserted() const noexcept { return has_inserted_; }

private:
    using pointers = std::vector<const contract::new_message*>;

    enqueued insert_plain(const contract::new_message& what);
    std::vector<enqueued> insert_all(std::span<const contract::new_message> messages);
    std::vector<std::optional<locator>> find_duplicates(
        std::span<const contract::new_message> messages, timestamp now,
        std::vector<std::size_t>& first_of_same);
    std::vector<locator> add_messages(const pointers& messages, timestamp now);
    void add_rows(const pointers& messages, const std::vector<locator>& where, timestamp now);
    void remember_dedup_keys(const pointers& messages, const std::vector<locator>& where,
                             timestamp now);
    std::optional<cancel_answer> try_to_cancel(std::int64_t seq);
    std::optional<cancel_answer> cancel_queued(std::int64_t seq);
    std::optional<cancel_answer> cancel_claimed(std::int64_t seq, fence number);

    connection& db_;
    contract::settlement_follower& follower_;
    bool has_inserted_ = false;
};

} // namespace posthorn::mariadb
