// Claiming and settling on MariaDB.
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/ledger.hpp"
#include "store/mariadb/ready_front.hpp"

#include <optional>

namespace posthorn::mariadb {

class claim_choice;

class queue final : public contract::message_queue {
public:
    /// Without a front, claims search from the beginning.
    queue(connection& db, ready_front* front, contract::settlement_follower* follower)
        : db_(db), front_(front), follower_(follower)
    {}

    /// Whether a claim would find anything to do, or to unpark. Two statements that lock nothing,
    /// mostly.
    [[nodiscard]] bool any_due(const contract::claim_request& request);

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
    struct sight {
        timestamp now;
        bool arrived = false;
        bool stale = false; ///< keys whose head is to be moved on
        bool expirable = false;
        bool queued = false;

        [[nodiscard]] bool has_chores() const { return arrived || stale || expirable; }
    };
    [[nodiscard]] sight look();
    void record_claim(const contract::claim_request& request, batch& claimed,
                      std::vector<batch_record::member> members);
    std::optional<batch_record> batch_of(std::string_view owner, fence which);
    std::vector<contract::open_delivery> open_deliveries(
        const batch_record& batch, const std::vector<std::uint32_t>& ordinals);
    bool was_called_off(const receipt& what);
    void expire_late(batch_record& batch, std::span<const receipt> what, timestamp now);
    bool remove_bad_rows(const claim_choice& found);
    [[nodiscard]] bool leaves_chores() const;
    void do_chores(const sight& seen, std::size_t expire_max);
    [[nodiscard]] std::vector<leaving> lock_expirable(timestamp now, std::size_t limit);
    void expire(const std::vector<leaving>& late, timestamp now);
    std::size_t expire_due(timestamp now, std::size_t limit);
    [[nodiscard]] bool expire_free(timestamp now, std::size_t limit); ///< whether all could

    connection& db_;
    ready_front* front_;
    contract::settlement_follower* follower_; ///< none for one who only looks
};

} // namespace posthorn::mariadb
