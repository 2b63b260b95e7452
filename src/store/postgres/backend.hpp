// An open PostgreSQL store: a pool of connections, and the frontier that its claims share.
#pragma once

#include "store/contract/backend.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/postgres/frontier.hpp"
#include "store/postgres/location.hpp"
#include "store/postgres/sessions.hpp"

#include <atomic>
#include <memory>

namespace posthorn::postgres {

class backend final : public contract::backend {
public:
    backend(location where, const store_options& options);

    std::unique_ptr<contract::session> begin() override;
    std::unique_ptr<contract::session> read() override;
    batch claim(const contract::claim_request& request) override;
    std::vector<enqueued> insert(std::span<const contract::new_message> messages) override;
    std::vector<settled_as> settle(std::string_view owner, fence which,
                                   std::span<const contract::decided> what,
                                   bool keep_done) override;
    contract::outlook outlook() override;
    std::unique_ptr<contract::bell> make_bell() override;

    const posthorn::environment& environment() const override { return options_.environment; }
    const posthorn::limits& limits() const override { return options_.limits; }

private:
    std::unique_ptr<connection> connect();
    owned_session own_session();

    location where_;
    store_options options_;
    frontier frontier_;
    std::shared_ptr<contract::doorbell> doorbell_; ///< where no session can listen
    std::atomic<bool> opened_ = false;
    pool pool_;
};

} // namespace posthorn::postgres
