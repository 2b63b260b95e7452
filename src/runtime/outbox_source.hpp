// The outbox of one store as something claimable.
#pragma once

#include "runtime/claimable.hpp"
#include "runtime/clock_minder.hpp"
#include <posthorn/outbox.hpp>
#include <posthorn/store.hpp>

#include <memory>

namespace posthorn::runtime {

class outbox_source final : public claimable {
public:
    /// `clock` outlives it where sources come and go; else it has one of its own.
    outbox_source(store where, outbox_options options,
                  std::shared_ptr<clock_minder> clock = nullptr);

    batch claim(const owner& who, const claim_options& how) override;
    settle_result settle(const owner& who, std::span<const settlement> what) override;
    settle_result settle(transaction& tx, const owner& who,
                         std::span<const settlement> what) override;
    bool renew(const owner& who, fence which, duration lease) override;
    reap_report reap() override;
    contract::outlook outlook() override;
    std::unique_ptr<contract::bell> make_bell() override;
    transaction begin() override;
    std::optional<message_record> find(message_id id) override;
    [[nodiscard]] std::size_t batch_max() const override;
    [[nodiscard]] const posthorn::environment& environment() const override;

private:
    store store_;
    posthorn::outbox outbox_;
    std::shared_ptr<clock_minder> clock_;
};

} // namespace posthorn::runtime
