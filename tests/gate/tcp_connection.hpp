// One connection through the gate: two flows of bytes, and perhaps a loss that is planned for it.
#pragma once

#include "gate/socket.hpp"

#include <chrono>
#include <deque>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::test {

/// A loss that happens to the first connection that sends `request`.
struct planned_loss {
    std::string request;
    std::string answer = {};
    bool with_reset = true;
    bool of_the_reply = true; ///< else of the request
};

class tcp_connection {
public:
    using instant = std::chrono::steady_clock::time_point;

    struct delays {
        std::chrono::milliseconds to_server;
        std::chrono::milliseconds to_client;
    };
    struct moved {
        std::size_t to_server = 0; ///< bytes passed on
        std::size_t to_client = 0;
        bool lost_request = false;
        bool lost_reply = false;
    };

    tcp_connection(socket client, socket server)
        : client_(std::move(client)), server_(std::move(server))
    {}
    tcp_connection(const tcp_connection&) = delete;
    tcp_connection& operator=(const tcp_connection&) = delete;
    ~tcp_connection();

    /// Adds what to wait for, and shortens `patience` to the next byte that is due.
    void watch(instant now, std::vector<pollfd>& watched,
               std::chrono::milliseconds& patience) const;

    /// Moves what can be moved without waiting. Takes the loss that was planned if it is for us.
    moved move(instant now, const delays& later, std::optional<planned_loss>& planned);

    /// Ends it, which both sides hear of when it is destroyed: by then the gate has counted it.
    void end(bool with_reset);
    [[nodiscard]] bool ended() const { return ended_; }

private:
    struct chunk {
        instant due;
        std::string bytes;
    };

    /// Bytes on their way from one side to the other.
    struct flow {
        std::deque<chunk> waiting;
        std::size_t waiting_bytes = 0;
        bool closed = false;     ///< the sender has said that it is done
        bool close_told = false; ///< and the receiver knows
        std::string recent;      ///< the end of what was read before, for words that are split

        [[nodiscard]] bool has_room() const;
    };

    /// Finds `word` in the bytes of a flow, also where reads have split it.
    static bool completes(flow& which, std::string_view word, std::string_view bytes);

    std::optional<std::string> read_from(const socket& from, flow& into);
    void put(flow& into, std::string bytes, instant due);
    std::size_t write_to(const socket& to, flow& from, instant now);

    socket client_;
    socket server_;
    flow to_server_;
    flow to_client_;
    std::optional<planned_loss>
        loss_; ///< the server works on the request, its answer must not pass
    bool ended_ = false;
    bool with_reset_ = true;
};

} // namespace posthorn::test
