// The tables of joins on SQLite.
#pragma once

#include "store/contract/join_table.hpp"
#include "store/contract/remote_join_table.hpp"
#include "store/sqlite/connection.hpp"
#include <posthorn/environment.hpp>

namespace posthorn::sqlite {

class joins final : public contract::join_table,
                    public contract::join_reader,
                    public contract::remote_join_table {
public:
    joins(connection& db, const environment& world) : db_(db), world_(world) {}

    std::int64_t insert(const contract::new_join& what) override;
    std::vector<join_record> lock(std::span<const std::int64_t> numbers) override;
    std::optional<join_record> lock(join_id id) override;
    void save(std::span<const join_record> which) override;
    std::vector<contract::join_row> rows_of(std::span<const std::int64_t> seqs) override;
    void add(std::int64_t join, std::span<const contract::new_member> members) override;
    void mark(std::span<const contract::join_row> which, member_state as) override;
    std::optional<contract::held_message> hold(message_id id) override;
    void follow(std::span<const std::int64_t> seqs) override;
    void keep_back(std::int64_t seq) override;
    void let_go(std::span<const std::int64_t> joins) override;
    std::size_t remove_ended(duration older_than, std::size_t limit) override;

    std::optional<join_record> find(join_id id) override;
    std::vector<join_record> list(const join_filter& filter) override;
    std::vector<join_member> members(std::int64_t join, std::int64_t after_seq,
                                     std::size_t limit) override;
    std::vector<contract::continuation> continuations(std::span<const std::int64_t> joins) override;

    bool remember(const contract::report_address& what) override;
    std::vector<contract::report_address> addresses_of(std::span<const std::int64_t> seqs) override;
    void forget(std::span<const std::int64_t> seqs) override;
    std::optional<contract::remote_row> find_remote(std::int64_t join, message_id id) override;
    void put_remote(const contract::remote_row& what) override;
    std::vector<contract::remote_row> rows_of_join(std::int64_t join, message_id after,
                                                   std::size_t limit) override;

private:
    connection& db_;
    const environment& world_;
};

} // namespace posthorn::sqlite
