// Leases on PostgreSQL.
#pragma once

#include "store/contract/lease_desk.hpp"
#include "store/postgres/conversation.hpp"
#include <posthorn/environment.hpp>

#include <functional>
#include <memory>

namespace posthorn::postgres {

class leases final : public contract::lease_table {
public:
    leases(conversation& talk, const environment& world) : talk_(talk), world_(world) {}

    bool hold(std::string_view name, posthorn::fence fence) override;
    bool pass(std::string_view name, posthorn::fence fence) override;
    std::size_t remove_unused(duration older_than, std::size_t limit) override;

private:
    conversation& talk_;
    const environment& world_;
};

class lease_desk final : public contract::lease_desk {
public:
    struct means {
        /// Runs one statement that commits by itself.
        std::function<rows(const contract::named_statement&, const arguments&)> run;
        std::function<std::unique_ptr<contract::bell>(std::string_view name)> bell;
        /// For those who cannot listen.
        std::function<void()> ring;
    };

    lease_desk(means with, const environment& world) : with_(std::move(with)), world_(world) {}

    contract::lease_answer acquire(const contract::lease_request& what) override;
    bool renew(const contract::held_lease& which, duration length) override;
    bool release(const contract::held_lease& which) override;
    std::optional<posthorn::fence> take_away(std::string_view name,
                                             std::optional<posthorn::fence> from) override;
    std::optional<lease_record> find(std::string_view name) override;
    std::vector<lease_record> list(const lease_filter& which) override;
    std::unique_ptr<contract::bell> make_bell(std::string_view name) override;

private:
    means with_;
    const environment& world_;
};

} // namespace posthorn::postgres
