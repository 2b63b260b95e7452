// Dead letters, blocked keys, pauses and retention on SQLite.
#pragma once

#include "store/contract/message_keeper.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/sqlite/connection.hpp"

namespace posthorn::sqlite {

class keeper final : public contract::message_keeper {
public:
    keeper(connection& db, const environment& world, contract::settlement_follower& follower)
        : db_(db), world_(world), follower_(follower)
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
    bool remove_dead_one(std::int64_t seq);

    connection& db_;
    const environment& world_;
    contract::settlement_follower& follower_;
};

} // namespace posthorn::sqlite
