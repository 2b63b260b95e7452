// The table of the inbox on MariaDB.
#pragma once

#include "store/contract/inbox_table.hpp"
#include "store/mariadb/connection.hpp"

namespace posthorn::mariadb {

class inbox final : public contract::inbox_table {
public:
    inbox(connection& db, view how) : db_(db), view_(how) {}

    std::optional<inbox_record> find(const inbound& from) override;
    contract::seen_inbound see(const inbound& from, std::string_view content_hash) override;
    bool finish(const inbound& from, std::string_view content_hash) override;
    void mark(std::int64_t position, inbox_state as) override;
    void carry(std::int64_t position, const locator& by) override;
    void replace(std::int64_t seq, std::string_view payload,
                 std::string_view headers_json) override;
    void follow(std::span<const std::int64_t> seqs, inbox_state as) override;
    std::vector<inbox_record> list(const inbox_filter& filter) override;
    std::size_t remove_done(duration older_than, std::size_t limit) override;

private:
    void require_view_of(const inbound& from, message_id carrier);

    connection& db_;
    view view_;
};

} // namespace posthorn::mariadb
