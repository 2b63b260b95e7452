// The statements of one settlement, and what their answers mean message by message.
#pragma once

#include "store/contract/message_queue.hpp"
#include "store/postgres/conversation.hpp"

#include <deque>
#include <span>
#include <string_view>
#include <vector>

namespace posthorn::postgres {

class settling {
public:
    settling(std::string_view owner, fence which, std::span<const contract::decided> what,
             bool keep_done, const environment& world);

    /// In their order: the locks first, then the messages, then their keys.
    [[nodiscard]] std::vector<step> steps() const;

    [[nodiscard]] std::vector<settled_as> answers(const std::vector<rows>& results) const;

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
    std::deque<prepared> statements_;
};

} // namespace posthorn::postgres
