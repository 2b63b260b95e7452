// Claiming and settling: how messages pass through the hands of workers.
//
// A claim makes a *batch*: messages that share an owner, a fence and a lease. A start is a
// committed fact, recorded for single members of a batch. A settlement names owner and fence and is
// answered message by message. Whether a store keeps batches
// as ranges of a log or as single rows is its own affair.
#pragma once

#include "core/settlement.hpp"
#include <posthorn/delivery.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::contract {

struct claim_request {
    std::string_view owner;
    std::string_view worker;
    duration lease{};
    std::size_t limit = 0;
    std::size_t start = 0; ///< how many of the first messages start with the claim

    /// Parked messages of these topics, at most `limit` of them and the oldest first, become ready
    /// before the claim chooses; their due times are what they were.
    std::span<const std::string> unpark = {};
    std::int64_t unpark_after = 0; ///< of those only the ones behind this position
};

/// A claimed message that is not settled yet.
struct open_delivery {
    posthorn::receipt receipt;
    std::string topic;
    int starts_before = 0;
    bool started = false;
};

/// A batch whose lease has run out.
struct overdue_batch {
    posthorn::fence fence{};
    std::string owner;
    std::vector<open_delivery> open;
};

/// A decided settlement, as the store carries it out.
struct decided {
    posthorn::receipt receipt;
    core::decision what;
};

class message_queue {
public:
    virtual ~message_queue() = default;

    /// Never returns more than `limit`. Within a priority, what has been due longest comes first.
    virtual batch claim(const claim_request& request) = 0;

    /// Answers per receipt; all receipts carry `which`.
    /// An expired message is ended here, not started.
    virtual std::vector<start_answer> start(std::string_view owner, fence which,
                                            std::span<const receipt> what) = 0;

    /// The facts that a decision needs, for those of the
    /// receipts that are still open under this owner.
    virtual std::vector<open_delivery> open_deliveries(std::string_view owner, fence which,
                                                       std::span<const receipt> what) = 0;

    /// Settles; answers per item. `keep_done` false removes done messages at once. `released` and
    /// `parked` take the start of this delivery back: it counts as no attempt.
    virtual std::vector<settled_as> settle(std::string_view owner, fence which,
                                           std::span<const decided> what, bool keep_done) = 0;

    virtual bool renew(std::string_view owner, fence which, duration lease) = 0;

    /// Locks and returns batches whose lease has run out, so that
    /// their members can be settled in this transaction.
    virtual std::vector<overdue_batch> overdue_batches(std::size_t limit) = 0;

    virtual std::size_t expire_due(std::size_t limit) = 0;

    /// For a clock that ran ahead and was set back: messages and leases that were written before
    /// wait as long from now as they were to wait then, and ticks of jobs are due. Up to `limit`
    /// messages; returns how many. A wait that is longer than what the clock was set back by stays.
    virtual std::size_t bring_back(std::size_t limit) = 0;
};

} // namespace posthorn::contract
