// Requests that are still on their way. Such a one costs a file and what has come of it, but no
// thread: however slowly others send, a request that is there is answered.
#pragma once

#include "http/connection.hpp"
#include "http/listening_socket.hpp"
#include "http/request_head.hpp"

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <poll.h>
#include <vector>

namespace posthorn::http {

/// Threads: one at a time.
class incoming_requests {
public:
    struct bounds {
        std::size_t count_max;
        std::size_t bytes_max;      ///< of all of them together
        std::size_t body_bytes_max; ///< of one
    };
    /// What a thread has to answer.
    struct arrived {
        std::unique_ptr<connection> with;
        bool is_malformed = false; ///< where its body ends cannot be told
    };
    using arrivals = std::deque<arrived>;

    explicit incoming_requests(bounds of) : of_(of) {}

    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
    void add(std::unique_ptr<connection> which, const listening_socket::peer& from);

    /// Adds their sockets to what is polled.
    void list_sockets(std::vector<pollfd>& to) const;

    /// How long it may take until the time of one of them is over. Nothing: there are none.
    [[nodiscard]] std::optional<duration> time_left() const;

    /// Takes what has come, with what `poll` says of the sockets in the order of their list. Those
    /// that a thread has to answer go to `ready`: all of it is here, or no more of it will be
    /// taken.
    void take_from(const pollfd* polled, arrivals& ready);

    /// Those that have said what they want go to `ready`, the others are closed.
    void give_up(arrivals& ready);

    /// Closes the oldest one of the network that has most of them.
    void send_one_away();

private:
    enum class state { awaiting_head, awaiting_body, over };
    enum class framing { counted, chunked, until_closed };
    struct request {
        std::unique_ptr<connection> with;
        listening_socket::peer from;
        state at = state::awaiting_head;
        head_search head = {};
        framing how = framing::counted;
        std::uint64_t body_bytes = 0; ///< of a counted one
        chunk_search chunks = {};
        bool is_malformed = false;
    };
    using place = std::list<request>::iterator;

    void take(request& of) const;
    void look_at_head(request& of) const;
    void look_at_body(request& of) const;
    [[nodiscard]] std::size_t bytes() const;
    template <typename Measure>
    [[nodiscard]] place oldest_of_greediest(Measure measure);

    const bounds of_;
    std::list<request> all_; ///< the oldest first
};

} // namespace posthorn::http
