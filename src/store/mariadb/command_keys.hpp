// The table of commands' keys on MariaDB.
#pragma once

#include "store/contract/key_table.hpp"
#include "store/mariadb/connection.hpp"

namespace posthorn::mariadb {

class command_keys final : public contract::key_table {
public:
    explicit command_keys(connection& db) : db_(db) {}

    contract::reserved_key reserve(const contract::key_request& what) override;
    bool complete(const contract::key_request& which, std::string_view result) override;
    bool fail(const contract::key_request& which, std::string_view error) override;
    std::optional<key_record> find(std::string_view command, std::string_view key) override;
    std::vector<key_record> list(const key_filter& filter) override;
    bool release(std::string_view command, std::string_view key) override;
    std::size_t remove_expired(std::size_t limit) override;

private:
    connection& db_;
};

} // namespace posthorn::mariadb
