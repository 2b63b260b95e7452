// Enqueueing and cancelling on SQLite.
#pragma once

#include "store/contract/message_writer.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/sqlite/connection.hpp"

namespace posthorn::sqlite {

class writer final : public contract::message_writer {
public:
    writer(connection& db, const environment& world, contract::settlement_follower& follower)
        : db_(db), world_(world), follower_(follower)
    {}

    std::vector<enqueued> insert(std::span<const contract::new_message> messages) override;
    cancel_answer cancel(message_id id) override;

private:
    std::int64_t reserve_numbers(std::size_t count);
    message_id id_for(const contract::new_message& what, std::int64_t seq, timestamp now);
    enqueued insert_one(const contract::new_message& what, std::int64_t seq, timestamp now);
    std::optional<enqueued> known_duplicate(const contract::new_message& what, timestamp now);
    cancel_answer cancel_at(std::int64_t seq);
    cancel_answer cancel_claimed(std::int64_t seq, fence number, bool queued, timestamp now);
    cancel_answer cancel_in_log(std::int64_t seq, timestamp now);

    connection& db_;
    const environment& world_;
    contract::settlement_follower& follower_;
};

} // namespace posthorn::sqlite
