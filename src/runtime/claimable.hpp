// Anything whose items can be claimed, handled and settled. The dispatcher knows nothing else.
#pragma once

#include "store/contract/bell.hpp"
#include "store/contract/outlook.hpp"
#include <posthorn/delivery.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/transaction.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace posthorn::runtime {

/// Threads: safe to use from any.
class claimable {
public:
    virtual ~claimable() = default;

    virtual batch claim(const owner& who, const claim_options& how) = 0;
    virtual settle_result settle(const owner& who, std::span<const settlement> what) = 0;
    virtual settle_result settle(transaction& tx, const owner& who,
                                 std::span<const settlement> what) = 0;
    virtual bool renew(const owner& who, fence which, duration lease) = 0;
    virtual reap_report reap() = 0;

    virtual contract::outlook outlook() = 0;
    virtual std::unique_ptr<contract::bell> make_bell() = 0;

    /// The transaction in which a handler runs.
    virtual transaction begin() = 0;
    virtual std::optional<message_record> find(message_id id) = 0;

    [[nodiscard]] virtual std::size_t batch_max() const = 0;
    [[nodiscard]] virtual const posthorn::environment& environment() const = 0;
};

} // namespace posthorn::runtime
