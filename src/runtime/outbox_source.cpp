// The outbox of one store as something claimable.
#include "runtime/outbox_source.hpp"

#include "store/contract/backend.hpp"
#include "store/contract/hurry.hpp"

#include <utility>

namespace posthorn::runtime {

namespace {

// Workers tell the log themselves, and more of it.
outbox_options without_log_of_deaths(outbox_options options)
{
    options.log_deaths = false;
    return options;
}

} // namespace

outbox_source::outbox_source(store where, outbox_options options,
                             std::shared_ptr<clock_minder> clock)
    : store_(std::move(where)),
      outbox_(store_, without_log_of_deaths(std::move(options))),
      clock_(clock ? std::move(clock) : std::make_shared<clock_minder>(store_))
{}

batch outbox_source::claim(const owner& who, const claim_options& how)
{
    auto claimed = outbox_.claim(who, how);
    clock_->saw(claimed.claimed_at);
    return claimed;
}

settle_result outbox_source::settle(const owner& who, std::span<const settlement> what)
{
    const contract::hurry no_waiting;
    return outbox_.settle(who, what);
}

settle_result outbox_source::settle(transaction& tx, const owner& who,
                                    std::span<const settlement> what)
{
    return outbox_.settle(tx, who, what);
}

bool outbox_source::renew(const owner& who, fence which, duration lease)
{
    const contract::hurry no_waiting;
    return outbox_.renew(who, which, lease);
}

reap_report outbox_source::reap()
{
    const contract::hurry no_waiting;
    return outbox_.reap_expired();
}

contract::outlook outbox_source::outlook()
{
    clock_->look();
    return store_.backend().outlook();
}

std::unique_ptr<contract::bell> outbox_source::make_bell()
{
    return store_.backend().make_bell();
}

transaction outbox_source::begin()
{
    return store_.begin();
}

std::optional<message_record> outbox_source::find(message_id id)
{
    return find_message(store_, id);
}

std::size_t outbox_source::batch_max() const
{
    return store_.backend().limits().batch_max;
}

const posthorn::environment& outbox_source::environment() const
{
    return store_.environment();
}

} // namespace posthorn::runtime
