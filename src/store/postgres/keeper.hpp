// What operators and retention do on PostgreSQL.
#pragma once

#include "store/contract/message_keeper.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/postgres/conversation.hpp"

namespace posthorn::postgres {

class keeper final : public contract::message_keeper {
public:
    keeper(conversation& talk, const environment& world, contract::settlement_follower& follower)
        : talk_(talk), world_(world), follower_(follower)
    {}

    bool redrive(message_id id, duration delay) override;
    bool purge(message_id id) override;
    bool skip_key(std::string_view ordering_key) override;
    bool pause(std::string_view topic) override;
    bool resume(std::string_view topic) override;
    std::size_t remove_finished(duration older_than, std::size_t limit) override;
    std::size_t remove_dead(duration older_than, std::size_t limit) override;
    std::size_t forget_dedup_keys(std::size_t limit) override;

private:
    std::size_t remove_dead_ones(const std::vector<std::int64_t>& seqs,
                                 const std::vector<std::string>& keys);

    conversation& talk_;
    const environment& world_;
    contract::settlement_follower& follower_;
};

} // namespace posthorn::postgres
