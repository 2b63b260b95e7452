// Granting leases on SQLite, each in a transaction of its own.
#pragma once

#include "store/contract/polling_bell.hpp"
#include "store/sqlite/sessions.hpp"

#include <functional>
#include <memory>

namespace posthorn::sqlite {

class lease_desk final : public contract::lease_desk {
public:
    struct means {
        std::function<std::unique_ptr<owned_session>(owned_session::purpose)> session;
        std::function<std::unique_ptr<contract::bell>(std::shared_ptr<contract::doorbell>)> bell;
    };

    explicit lease_desk(means with) : with_(std::move(with)) {}

    contract::lease_answer acquire(const contract::lease_request& what) override;
    bool renew(const contract::held_lease& which, duration length) override;
    bool release(const contract::held_lease& which) override;
    std::optional<posthorn::fence> take_away(std::string_view name,
                                             std::optional<posthorn::fence> from) override;
    std::optional<lease_record> find(std::string_view name) override;
    std::vector<lease_record> list(const lease_filter& which) override;
    std::unique_ptr<contract::bell> make_bell(std::string_view name) override;

private:
    template <typename Work>
    auto in_one_transaction(Work&& work);

    means with_;
    // Shared with the bells, which may be around for longer.
    std::shared_ptr<contract::doorbell> released_ = std::make_shared<contract::doorbell>();
};

} // namespace posthorn::sqlite
