// The statements of one settlement, and what their answers mean message by message.
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/contract/settlement_follower.hpp"
#include "store/postgres/conversation.hpp"

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::postgres {

class settling {
public:
    /// Whether messages are settled whose end somebody follows, or nothing is if there is one.
    enum class followed { settle_too, settle_none };

    settling(std::string_view owner, fence which, std::span<const contract::decided> what,
             bool keep_done, followed how, const environment& world);

    /// In their order: the locks first, then the messages, then their keys.
    [[nodiscard]] std::vector<step> steps() const;

    [[nodiscard]] std::vector<settled_as> answers(const std::vector<rows>& results) const;

    /// Whether somebody follows the end of one of them.
    [[nodiscard]] bool any_followed(const std::vector<rows>& results) const;

    /// Those that have ended for good by these answers, each once.
    [[nodiscard]] std::vector<contract::ended_message> ends(
        std::span<const settled_as> answers) const;

private:
    void add_uniform(const contract::named_statement& which, std::string_view owner, fence number,
                     std::span<const std::int64_t> seqs, const environment& world);
    void add_mixed(std::string_view owner, fence number,
                   std::span<const contract::decided* const> what, const environment& world);

    struct prepared {
        const contract::named_statement& which;
        arguments with;
        bool settles = false;
        std::vector<std::int64_t> seqs = {}; ///< that it settles
    };

    std::span<const contract::decided> what_;
    std::vector<std::int64_t> unless_followed_;
    std::deque<prepared> statements_;
    std::size_t asks_ = 0; ///< which statement asks who is followed
};

/// What a statement that ends messages by their expiry has ended.
[[nodiscard]] std::vector<contract::ended_message> expired_ones(const rows& ended);

/// Messages by their numbers, and the ordering keys of those that have one.
struct waiting_messages {
    std::vector<std::int64_t> seqs;
    std::vector<std::string> keys;
    std::vector<std::string> key_of = {}; ///< of each message; empty: none
};
[[nodiscard]] waiting_messages read_waiting(const rows& found);

} // namespace posthorn::postgres
