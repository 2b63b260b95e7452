// Who follows how messages end. Whoever ends messages, or brings them back, says so here, in the
// same transaction and with those that really changed; what the follower makes of it is its affair.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/message_state.hpp>

#include <cstdint>
#include <span>

namespace posthorn::contract {

struct ended_message {
    std::int64_t position = 0;
    message_state as = message_state::done;
};

class settlement_follower {
public:
    virtual ~settlement_follower() = default;

    virtual void ended(std::span<const ended_message> which) = 0;

    /// Dead messages that were redriven.
    virtual void came_back(std::span<const std::int64_t> positions) = 0;

    /// Between the first and one of the others, both are only noted.
    virtual void begin_gathering() = 0;
    virtual void follow_gathered() = 0;
    virtual void forget_gathered() noexcept = 0;
};

/// What ends, or comes back, while this lives is followed at once, after all else: locks are then
/// taken in one order.
class gathering {
public:
    explicit gathering(settlement_follower& by) : by_(by) { by_.begin_gathering(); }
    gathering(const gathering&) = delete;
    gathering& operator=(const gathering&) = delete;

    void follow()
    {
        followed_ = true;
        by_.follow_gathered();
    }

    ~gathering()
    {
        if (!followed_)
            by_.forget_gathered();
    }

private:
    settlement_follower& by_;
    bool followed_ = false;
};

} // namespace posthorn::contract
