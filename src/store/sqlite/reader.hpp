// Looking at messages on SQLite.
#pragma once

#include "store/contract/message_reader.hpp"
#include "store/sqlite/connection.hpp"

#include <functional>

namespace posthorn::sqlite {

class reader final : public contract::message_reader {
public:
    reader(connection& db, const environment& world) : db_(db), world_(world) {}

    std::optional<message_record> find(message_id id) override;
    std::vector<message_record> list(const message_filter& filter) override;
    store_stats count() override;
    std::vector<blocked_key> blocked_keys(std::size_t limit) override;
    std::optional<message_id> blocker_of(std::string_view ordering_key) override;
    contract::outlook outlook() override;
    std::vector<pause_record> pauses() override;

private:
    std::optional<message_record> load(std::int64_t seq, bool with_payload);
    void add_batch_facts(message_record& record);
    std::vector<std::int64_t> matching_seqs(const message_filter& filter);
    std::vector<std::int64_t> ready_seqs(const message_filter& filter);
    std::vector<std::int64_t> claimed_seqs(const message_filter& filter);
    void count_log(store_stats& into);

    connection& db_;
    const environment& world_;
};

} // namespace posthorn::sqlite
