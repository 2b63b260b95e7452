// Claiming and settling on PostgreSQL.
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/postgres/conversation.hpp"
#include "store/postgres/frontier.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace posthorn::postgres {

struct waiting_messages;

class queue final : public contract::message_queue {
public:
    queue(conversation& talk, const environment& world, frontier& front,
          contract::settlement_follower& follower)
        : talk_(talk), world_(world), front_(front), follower_(follower)
    {}

    /// A claim that is the whole transaction: one round trip unless there are chores.
    batch claim_and_commit(const contract::claim_request& request);

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

    /// A settlement that is the whole transaction.
    std::vector<settled_as> settle_and_commit(std::string_view owner, fence which,
                                              std::span<const contract::decided> what,
                                              bool keep_done);

private:
    batch claim_as_known(const contract::claim_request& request);
    batch claim_plain(const contract::claim_request& request, std::int64_t from);
    batch claim_by_walking(const contract::claim_request& request);
    batch take(const rows& claimed, const contract::claim_request& request, incarnation tables);
    std::vector<settled_as> settle_plain(std::string_view owner, fence which,
                                         std::span<const contract::decided> what);
    rows run_settle_plain(std::string_view owner, fence which, std::span<const std::int64_t> seqs);
    bool fit(fence which, std::span<const contract::decided> what);
    std::vector<settled_as> settle_what_fits(std::string_view owner, fence which,
                                             std::span<const contract::decided> what,
                                             bool keep_done);
    void remember_low();
    enum class arrivals { unknown, some }; ///< what a look has seen
    void do_chores(std::size_t limit, arrivals seen = arrivals::unknown);
    std::size_t expire(const waiting_messages& late);

    conversation& talk_;
    const environment& world_;
    frontier& front_;
    contract::settlement_follower& follower_;
};

} // namespace posthorn::postgres
