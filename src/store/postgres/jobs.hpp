// The tables of jobs and executions on PostgreSQL.
#pragma once

#include "store/contract/job_table.hpp"
#include "store/postgres/conversation.hpp"
#include <posthorn/environment.hpp>

namespace posthorn::postgres {

class jobs final : public contract::job_table {
public:
    jobs(conversation& talk, const environment& world) : talk_(talk), world_(world) {}

    timestamp now() override;
    std::optional<contract::job_row> find(contract::job_kind kind, std::string_view name) override;
    std::optional<contract::job_row> lock(contract::job_kind kind, std::string_view name) override;
    std::optional<contract::job_row> lock(std::int64_t number) override;
    std::optional<std::int64_t> insert(const contract::job_row& what) override;
    void save(const contract::job_row& what) override;
    void remove(std::int64_t number) override;
    std::vector<contract::job_row> list(contract::job_kind kind, std::int64_t after,
                                        std::size_t limit) override;
    std::vector<contract::job_row> of_ticks(std::span<const std::int64_t> seqs) override;
    void forget(std::span<const std::int64_t> seqs, contract::join_role as) override;

private:
    conversation& talk_;
    const environment& world_;
};

class runs final : public contract::run_table {
public:
    runs(conversation& talk, const environment& world) : talk_(talk), world_(world) {}

    std::optional<std::int64_t> add(const contract::run_row& what) override;
    void save(const contract::run_row& what) override;
    std::vector<contract::run_row> open(std::string_view job, std::size_t limit) override;
    std::vector<contract::run_row> of_messages(std::span<const std::int64_t> seqs) override;
    std::optional<contract::run_row> find(execution_id id) override;
    std::vector<contract::run_row> list(const execution_filter& filter) override;
    std::size_t remove_ended(duration older_than, std::size_t limit) override;

private:
    conversation& talk_;
    const environment& world_;
};

} // namespace posthorn::postgres
