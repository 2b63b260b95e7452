// The messages of one call of `publish`: which of them may be sent now, and what became of each.
// Of one key at most one is on its way: should it be refused, the next must not have overtaken it.
#pragma once

#include <posthorn/transport.hpp>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace posthorn::rabbitmq {

/// Threads: as its user guards it.
class batch {
public:
    explicit batch(std::span<const transport_message> what)
        : what_(what), open_(what.size()), answers_(what.size()), states_(what.size())
    {}
    batch(const batch&) = delete;
    batch& operator=(const batch&) = delete;

    /// The next one that may be sent, which is on its way from now on.
    [[nodiscard]] std::optional<std::size_t> next();

    /// Whether something that is not on its way may have arrived before.
    enum class doubt { none, some };

    /// It is not on its way any more, and goes before the others. A doubt remains.
    void again(std::size_t which, doubt arrived);

    /// It may have arrived, whatever becomes of it from now on.
    void doubt_arrival(std::size_t which) { states_[which].in_doubt = true; }

    void settle(std::size_t which, publish_answer answer);

    [[nodiscard]] const transport_message& at(std::size_t which) const { return what_[which]; }
    [[nodiscard]] bool is_done() const noexcept { return open_ == 0; }

    /// The answers; for those without one these, depending on whether they may have arrived.
    [[nodiscard]] std::vector<publish_answer> end(const publish_answer& in_doubt,
                                                  const publish_answer& not_sent);

    std::condition_variable_any done; ///< told when each has its answer

private:
    enum class state : unsigned char { waiting, on_the_way, answered };
    struct progress {
        state now = state::waiting;
        bool in_doubt = false;
    };

    /// What has one key.
    struct line {
        bool busy = false;  // one is on its way
        bool stuck = false; // one was not accepted
        std::deque<std::size_t> waiting;
    };

    void answer(std::size_t which, publish_answer answer);

    std::span<const transport_message> what_;
    std::size_t open_;
    std::vector<publish_answer> answers_;
    std::vector<progress> states_;
    std::size_t seen_ = 0; // of what_, by next()
    std::deque<std::size_t> again_;
    std::unordered_map<std::string_view, line> lines_;
};

} // namespace posthorn::rabbitmq
