// Ordering keys: which message of a key may run, decided by workers and never by enqueuers.
//
// A key that is held has a row in `key_head`, and exactly one of its messages is ready, parked,
// claimed or dead and blocking: the head. Whoever ends the head, or lets messages queue up behind
// it, locks that row first.
#pragma once

#include "store/mariadb/connection.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace posthorn::mariadb {

class keys {
public:
    explicit keys(connection& db) : db_(db) {}

    /// Gives up to `limit` messages that have arrived their places. Returns: how many it found.
    std::size_t admit_arrived(std::size_t limit);

    /// The heads of these keys have ended: the next of each becomes ready, or the key is free.
    void go_on(const std::set<std::string>& ordering_keys);

    /// Places a redriven message: as the head if its key is free, else waiting.
    void admit_redriven(std::int64_t seq, std::string_view ordering_key);

private:
    connection& db_;
};

} // namespace posthorn::mariadb
