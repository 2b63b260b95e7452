// Claiming and settling on SQLite.
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/connection.hpp"

namespace posthorn::sqlite {

class queue final : public contract::message_queue {
public:
    queue(connection& db, const environment& world, contract::settlement_follower& follower)
        : db_(db), world_(world), follower_(follower)
    {}

    /// Whether a claim, and what it takes back, would find anything to do.
    /// Reads only.
    [[nodiscard]] bool any_due(const contract::claim_request& request);

    /// Whether there are messages that no claim has passed yet.
    [[nodiscard]] bool log_has_more();

    batch claim(const contract::claim_request& request) override;
    std::vector<start_answer> start(std::string_view owner, fence which,
                                    std::span<const receipt> what) override;
    std::vector<contract::open_delivery> open_deliveries(std::string_view owner, fence which,
                                                         std::span<const receipt> what) override;
    std::vector<settled_as> settle(std::string_view owner, fence which,
                                   std::span<const contract::decided> what,
                                   bool keep_done) override;
    bool renew(std::string_view owner, fence which, duration lease) override;
    std::vector<contract::overdue_batch> overdue_batches(std::size_t limit) override;
    std::size_t expire_due(std::size_t limit) override;
    std::size_t bring_back(std::size_t limit) override;

private:
    void unpark(const contract::claim_request& request);
    std::optional<batch_record> batch_of(std::string_view owner, fence which);
    contract::open_delivery open_delivery_of(const batch_record& batch, std::uint32_t ordinal);
    bool was_called_off(const receipt& what);
    bool expire_if_late(batch_record& batch, std::uint32_t ordinal, timestamp now);

    connection& db_;
    const environment& world_;
    contract::settlement_follower& follower_;
};

} // namespace posthorn::sqlite
