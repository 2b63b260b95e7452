// The socket of one request, with one time for all of it, however it is cut into pieces.
#pragma once

#include "http/latch.hpp"
#include <posthorn/time.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace posthorn::http {

/// Why no more can be read.
enum class shortfall {
    none,
    ended, ///< the other side has said all
    broken,
    too_much,
    too_slow,
    interrupted
};

class connection {
public:
    /// Closes the socket in the end. Lifetime: the latch outlives it; once it is set, nobody waits
    /// for the other side any more.
    connection(int socket, const latch& interrupted, duration within);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection();

    /// Returns: how many bytes have come, at least one; 0: no more will, and `why` says why.
    [[nodiscard]] std::size_t receive(char* into, std::size_t bytes_max);
    [[nodiscard]] shortfall why() const noexcept { return why_; }

    /// Returns: whether the kernel has taken all of it.
    [[nodiscard]] bool send(std::string_view bytes);

    /// Hears the other side out, for a while: one that is cut off while it sends would never read
    /// the answer.
    void discard_rest();

private:
    [[nodiscard]] bool wait_for(short what, monotonic_time until);
    [[nodiscard]] std::size_t nothing_more(shortfall why);

    const int socket_;
    const latch& interrupted_;
    const duration within_;
    const monotonic_time receive_until_;
    std::optional<monotonic_time> send_until_; ///< from the first answer after what was received
    shortfall why_ = shortfall::none;
};

} // namespace posthorn::http
