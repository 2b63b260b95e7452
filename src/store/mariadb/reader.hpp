// Looking at messages on MariaDB.
#pragma once

#include "store/contract/message_reader.hpp"
#include "store/mariadb/connection.hpp"

namespace posthorn::mariadb {

class reader final : public contract::message_reader {
public:
    explicit reader(connection& db) : db_(db) {}

    std::optional<message_record> find(message_id id) override;
    std::vector<message_record> list(const message_filter& filter) override;
    store_stats count() override;
    std::vector<blocked_key> blocked_keys(std::size_t limit) override;
    std::optional<message_id> blocker_of(std::string_view ordering_key) override;
    contract::outlook outlook() override;
    std::vector<pause_record> pauses() override;

private:
    std::vector<message_record> load(const std::vector<std::int64_t>& seqs, bool with_payload);
    void add_batch_facts(std::vector<message_record>& records);
    std::vector<std::int64_t> matching_seqs(const message_filter& filter);
    std::vector<std::int64_t> claimed_seqs(const message_filter& filter);
    void count_waiting(store_stats& into, timestamp now);
    void count_ended(store_stats& into);
    std::int64_t estimated_rows(std::string_view table);

    connection& db_;
};

} // namespace posthorn::mariadb
