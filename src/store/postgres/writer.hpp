// Enqueueing and cancelling on PostgreSQL.
#pragma once

#include "store/contract/message_writer.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/postgres/conversation.hpp"
#include "store/postgres/new_rows.hpp"

namespace posthorn::postgres {

class writer final : public contract::message_writer {
public:
    writer(conversation& talk, const environment& world, ringing bell,
           contract::settlement_follower& follower)
        : talk_(talk), world_(world), bell_(bell), follower_(follower)
    {}

    std::vector<enqueued> insert(std::span<const contract::new_message> messages) override;
    cancel_answer cancel(message_id id) override;

    [[nodiscard]] bool has_added() const noexcept { return added_; }

private:
    std::vector<enqueued> insert_together(std::span<const contract::new_message> messages);
    std::vector<enqueued> insert_one_by_one(std::span<const contract::new_message> messages);
    std::vector<enqueued> insert_or_undo(std::span<const contract::new_message> messages);

    conversation& talk_;
    const environment& world_;
    ringing bell_;
    contract::settlement_follower& follower_;
    bool added_ = false;
};

/// Whether one statement adds them, so that no transaction is needed around it.
[[nodiscard]] bool takes_one_statement(std::span<const contract::new_message> messages);

/// Adds them in that one statement, on its own.
[[nodiscard]] std::vector<enqueued> insert_at_once(conversation& talk,
                                                   std::span<const contract::new_message> messages,
                                                   const environment& world);

} // namespace posthorn::postgres
