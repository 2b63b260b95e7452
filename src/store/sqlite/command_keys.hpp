// The table of commands' keys on SQLite.
#pragma once

#include "store/contract/key_table.hpp"
#include "store/sqlite/connection.hpp"
#include <posthorn/environment.hpp>

namespace posthorn::sqlite {

class command_keys final : public contract::key_table {
public:
    command_keys(connection& db, const environment& world) : db_(db), world_(world) {}

    contract::reserved_key reserve(const contract::key_request& what) override;
    bool complete(const contract::key_request& which, std::string_view result) override;
    bool fail(const contract::key_request& which, std::string_view error) override;
    std::optional<key_record> find(std::string_view command, std::string_view key) override;
    std::vector<key_record> list(const key_filter& filter) override;
    bool release(std::string_view command, std::string_view key) override;
    std::size_t remove_expired(std::size_t limit) override;

private:
    connection& db_;
    const environment& world_;
};

} // namespace posthorn::sqlite
