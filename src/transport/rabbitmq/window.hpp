// What is on its way and not confirmed, in the order of its sending. The broker counts messages
// per channel; it may confirm many at once, and tells of one that nobody gets before it confirms
// that it has dealt with it.
#pragma once

#include "transport/rabbitmq/batch.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace posthorn::rabbitmq {

class window {
public:
    struct flight {
        batch* from = nullptr; ///< none: whoever published it has left
        std::size_t which = 0;
        message_id id = {};
        std::size_t route = 0;     ///< a hash of where to
        std::uint64_t start = 0;   ///< the number of its first byte on the connection
        std::string returned = {}; ///< why nobody gets it; empty: somebody does
    };

    void add(flight what);

    /// The broker's word for this number, or for all up to it.
    void confirm(std::uint64_t number, bool multiple, bool accepted, monotonic_time now);

    /// Since when a route has had refusals alone, if there is one; of several, the longest.
    [[nodiscard]] std::optional<monotonic_time> refused_since() const;

    /// Nobody gets the first one of this id and route of which that was not said yet.
    void give_back(const message_id& id, std::size_t route, const std::string& why);

    /// Refusals so far are old news: they count from now on.
    void believe_refusals(monotonic_time now);

    /// Whoever published this does not wait any longer. They stay, because the broker may still
    /// object to one of them, and then nobody else is to blame.
    void forget(const batch& from);

    /// Empties it. Those of which the broker has said nothing, and for which somebody waits;
    /// numbers start again.
    [[nodiscard]] std::vector<flight> drain();

    [[nodiscard]] std::size_t size() const noexcept { return flights_.size(); }
    [[nodiscard]] bool empty() const noexcept { return flights_.empty(); }

    /// How many somebody waits for, and nobody any more.
    [[nodiscard]] std::size_t awaited() const noexcept { return awaited_; }
    [[nodiscard]] std::size_t forgotten() const noexcept { return flights_.size() - awaited_; }

private:
    void settle(const flight& which, bool accepted, monotonic_time now);

    // By number: one that gets no answer must not keep those behind it.
    std::map<std::uint64_t, flight> flights_;
    std::uint64_t next_number_ = 1;
    std::size_t awaited_ = 0;
    std::unordered_map<std::size_t, monotonic_time> refusing_; // routes, and since when
};

} // namespace posthorn::rabbitmq
