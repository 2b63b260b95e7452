// Ordering keys: at any time one message of a key, its head, may run. Whoever changes the place of
// a message with a key, other than by adding or claiming it, does so under the lock of its head.
#pragma once

#include "store/postgres/conversation.hpp"
#include "store/postgres/settling.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace posthorn::postgres {

class key_heads {
public:
    key_heads(conversation& talk, const environment& world) : talk_(talk), world_(world) {}

    /// Makes sure that every key with open messages has a head, and locks these heads.
    void lock(const std::vector<std::string>& keys);

    /// Locks the heads of these keys as far as no other transaction holds them; keys of `arrived`,
    /// which are locked, get a head first. Never waits for an application. Returns: the keys.
    [[nodiscard]] std::unordered_set<std::string> lock_free(const std::vector<std::string>& keys,
                                                            const waiting_messages& arrived);

    /// Forgets that the heads of these keys are to be moved. Requires: their lock.
    void forget_stale(const std::vector<std::string>& keys);

    /// Lets keys go on whose head has ended; those that another transaction holds are noted as
    /// stale.
    void move_on(const std::vector<std::string>& keys);

    /// Chooses the head anew where it was this message, which has just come back from the dead.
    void reconsider(const std::string& key, std::int64_t seq);

    /// Gives arrived messages their places. Requires: the lock of their keys.
    void admit(const std::vector<std::string>& keys, const std::vector<std::int64_t>& seqs);

private:
    conversation& talk_;
    const environment& world_;
};

/// Locks a batch, whoever owns it.
void lock_batch(conversation& talk, fence number);

/// Takes members that have ended out of their batch. Requires: its lock.
void leave_batch(conversation& talk, fence number, std::int64_t count);

} // namespace posthorn::postgres
