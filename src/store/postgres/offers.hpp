// The offers of one sleeper, and what it was handed for them.
//
// An offer is a row: a place that a transaction which enqueues may fill at its commit. Which of
// ours have been filled we learn from the notifications of those commits; and if the session breaks
// between, from the table of batches, by the name of the owner.
#pragma once

#include "store/contract/bell.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/frontier.hpp"
#include <posthorn/environment.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace posthorn::postgres {

/// Every call that takes a connection throws `error`; then the session is lost. Threads: one.
class offers {
public:
    offers(const environment& world, frontier& front) : world_(world), front_(front) {}

    /// Makes so many, counting those that are open; if more than half of them are, it can wait.
    void make(connection& db, const contract::place_offer& terms, std::size_t places);

    /// Takes them back. Somebody may have filled one before: that is noticed, and asked for.
    void withdraw(connection& db);

    /// Whether a notification speaks of an offer.
    [[nodiscard]] static bool is_about_one(std::string_view said) noexcept;

    /// Reads a notification. False: it is about something else.
    bool hear(std::string_view said, int session);

    /// The session has ended, and perhaps somebody has filled an offer that we were not told of.
    void lose() noexcept;

    [[nodiscard]] bool were_told() const noexcept { return !told_.empty(); }
    [[nodiscard]] bool must_ask() const noexcept { return must_ask_; }

    /// What was handed over and is not among `held`, which was read before this call.
    std::vector<contract::handed_batch> take(connection& db, const std::vector<fence>& held);

private:
    bool begin(connection& db, const contract::place_offer& terms);
    void end_doubts(connection& db);
    [[nodiscard]] rows ask(connection& db, const std::vector<fence>& held) const;
    void keep_open(std::string_view ids);

    const environment& world_;
    frontier& front_;
    std::optional<contract::place_offer> terms_; ///< of the last offers
    std::optional<bool> may_offer_;              ///< the rights of this session, once it has looked
    bool begun_ = false; ///< this session has the lock that makes them count
    std::set<std::int64_t> open_;
    std::set<std::int64_t> doubtful_; ///< of sessions that ended: somebody may be filling one
    std::vector<fence> told_;         ///< handed over, it is said, and not taken yet
    bool must_ask_ = false;
};

} // namespace posthorn::postgres
