// Ordering keys: which message of a key may run, decided by workers and never by enqueuers.
//
// A key that is held has a row in `key_head`, and exactly one of its messages is ready, parked,
// claimed or dead and blocking: the head. Whoever ends the head, or lets messages queue up behind
// it, locks that row first.
#pragma once

#include "store/mariadb/connection.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::mariadb {

class keys {
public:
    using seqs_by_key = std::map<std::string, std::vector<std::int64_t>>; ///< each in order

    explicit keys(connection& db) : db_(db) {}

    struct admission {
        std::int64_t last = 0;  ///< the last message that it found
        std::size_t found = 0;  ///< how many
        bool left_some = false; ///< other transactions hold some of these keys
    };

    /// Gives up to `limit` messages that have arrived after the number `after` their places. Does
    /// not wait: keys that another transaction holds are left out.
    admission admit_arrived(std::int64_t after, std::size_t limit);

    /// The heads of these keys have ended: the next of each becomes ready, or the key is free. On a
    /// connection that does not wait, a key that another transaction holds is noted as stale.
    void go_on(const std::set<std::string>& ordering_keys);

    /// Lets stale keys go on. Returns: whether others still hold some of them.
    bool tend_stale(std::size_t limit);

    /// Places a redriven message: as the head if its key is free, else waiting.
    void admit_redriven(std::int64_t seq, std::string_view ordering_key);

private:
    [[nodiscard]] std::map<std::string, std::int64_t> lock_heads(const seqs_by_key& of);
    void ensure_heads(std::span<const std::int64_t> oldest, std::vector<std::int64_t>& held);
    void set_head(const std::string& key, std::int64_t seq);
    void wait_and_go_on(const std::string& key);
    [[nodiscard]] bool give_way(const std::string& key);
    [[nodiscard]] bool try_to_go_on(const std::string& key);
    [[nodiscard]] bool try_to_mend(const std::string& key);

    connection& db_;
};

} // namespace posthorn::mariadb
