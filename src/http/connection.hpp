// The socket of one request, with one time for all of it, however it is cut into pieces.
#pragma once

#include "http/latch.hpp"
#include <posthorn/time.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::http {

/// The machine's own clock, also where tests have another one: a kernel waits by no other.
[[nodiscard]] monotonic_time machine_time();

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

    /// Takes what has come, and waits for nothing. `receive` returns it later, whenever that is.
    /// Returns: whether more may come.
    [[nodiscard]] bool take_ahead(std::size_t bytes_max);
    [[nodiscard]] std::string_view ahead() const noexcept { return ahead_; }

    /// Returns: how many bytes have come, at least one; 0: no more will, and `why` says why.
    [[nodiscard]] std::size_t receive(char* into, std::size_t bytes_max);
    [[nodiscard]] shortfall why() const noexcept { return why_; }
    [[nodiscard]] monotonic_time receive_until() const noexcept { return receive_until_; }
    [[nodiscard]] int socket() const noexcept { return socket_; }

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
    std::string ahead_;
    std::size_t ahead_given_ = 0; ///< by `receive`
};

} // namespace posthorn::http
