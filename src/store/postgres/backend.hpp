// An open PostgreSQL store: a pool of connections, and the frontier that its claims share.
#pragma once

#include "store/contract/backend.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/postgres/frontier.hpp"
#include "store/postgres/location.hpp"
#include "store/postgres/sessions.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace posthorn::postgres {

/// Connections that the schemas of one database take turns with.
class shared_connections {
public:
    explicit shared_connections(location where);

    postgres::pool pool;

    /// How many have been opened so far: after a new one the server may be another.
    [[nodiscard]] std::uint64_t opened() const noexcept { return opened_.load(); }

private:
    location where_;
    std::atomic<std::uint64_t> opened_ = 0;
};

class backend final : public contract::backend {
public:
    /// With connections of its own, or those that it shares with other schemas.
    backend(location where, const store_options& options,
            std::shared_ptr<shared_connections> shared = nullptr);

    std::unique_ptr<contract::session> begin() override;
    std::unique_ptr<contract::session> begin_work() override;
    std::unique_ptr<contract::session> read() override;
    batch claim(const contract::claim_request& request) override;
    std::vector<enqueued> insert(std::span<const contract::new_message> messages) override;
    std::vector<settled_as> settle(std::string_view owner, fence which,
                                   std::span<const contract::decided> what,
                                   bool keep_done) override;
    contract::reserved_key reserve(const contract::key_request& what) override;
    contract::lease_desk& leases() override { return leases_; }
    contract::outlook outlook() override;
    std::unique_ptr<contract::bell> make_bell() override;

    const posthorn::environment& environment() const override { return options_.environment; }
    const posthorn::limits& limits() const override { return options_.limits; }

private:
    std::unique_ptr<connection> connect();
    [[nodiscard]] postgres::pool& connections() { return shared_ ? shared_->pool : pool_; }
    [[nodiscard]] postgres::pool::turn take();
    owned_session own_session(conversation::purpose why = conversation::purpose::write);
    [[nodiscard]] location where_to_listen() const;
    rows run_alone(const contract::named_statement& which, const arguments& with);
    [[nodiscard]] std::unique_ptr<contract::bell> make_lease_bell(std::string_view name) const;

    location where_;
    store_options options_;
    frontier frontier_;
    std::shared_ptr<contract::doorbell> doorbell_; ///< where no session can listen
    std::atomic<bool> opened_ = false;
    std::shared_ptr<shared_connections> shared_; ///< with other schemas
    std::atomic<std::uint64_t> seen_opened_ = 0;
    postgres::pool pool_; ///< unless they are shared

    // Rung by releases in this process, for those who cannot listen.
    std::shared_ptr<contract::doorbell> released_ = std::make_shared<contract::doorbell>();
    lease_desk leases_;
};

} // namespace posthorn::postgres
