// An open MariaDB store: a pool of connections that comes back after the server does.
#pragma once

#include "store/contract/backend.hpp"
#include "store/mariadb/sessions.hpp"

#include <atomic>
#include <functional>
#include <memory>

namespace posthorn::mariadb {

class backend final : public contract::backend {
public:
    backend(settings where, const store_options& options);

    std::unique_ptr<contract::session> begin() override;
    std::unique_ptr<contract::session> begin_work() override;
    std::unique_ptr<contract::session> read() override;
    batch claim(const contract::claim_request& request) override;
    contract::reserved_key reserve(const contract::key_request& what) override;
    contract::lease_desk& leases() override { return leases_; }
    contract::outlook outlook() override;
    std::unique_ptr<contract::bell> make_bell() override;
    std::vector<enqueued> insert(std::span<const contract::new_message> messages) override;

    const posthorn::environment& environment() const override { return options_.environment; }
    const posthorn::limits& limits() const override { return options_.limits; }

private:
    std::unique_ptr<owned_session> session_for(owned_session::purpose why);
    template <typename Question>
    auto ask(Question&& question);
    void on_any(const std::function<void(connection&)>& work);

    settings where_;
    store_options options_;
    pool connections_;
    shared_hints hints_;
    std::atomic<bool> was_idle_ = false; ///< the last claim found nothing
    lease_desk leases_;
};

} // namespace posthorn::mariadb
