// What the suite needs of a transport: a way in, a look at what arrived behind it, and the faults
// that the system behind it can have.
#pragma once

#include <posthorn/transport.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::transports {

/// What can go wrong behind a transport.
enum class fault {
    rejection, ///< whoever gets the next message says no
    outage,    ///< nobody is there, until it is over
    silence,   ///< messages are taken, and the answers get lost, until it is over
    pressure,  ///< we are asked to slow down, until it is over
};

/// One transport and the system behind it, fresh for each test.
class transport_under_test {
public:
    virtual ~transport_under_test() = default;

    [[nodiscard]] virtual std::shared_ptr<transport> open() = 0;

    /// Lets what is published to this topic, or with a closing `*` to all that start so, arrive.
    virtual void listen(std::string_view pattern) = 0;

    /// What has arrived so far, in its order; waits until it is at least so many.
    [[nodiscard]] virtual std::vector<transport_message> arrived(std::size_t at_least) = 0;

    virtual void begin(fault which) = 0;
    virtual void end(fault which) = 0;

    /// Breaks the connections, and lets all bytes of those that follow take so long each way.
    /// False: there is no way between us.
    virtual bool move_away(std::chrono::milliseconds /*each_way*/) { return false; }
};

struct transport_kind {
    std::string name;
    std::function<std::unique_ptr<transport_under_test>()> make;

    /// Faults that it cannot have, each with the reason.
    std::vector<std::pair<fault, std::string>> without = {};
};

/// The transports that a program runs the suite on; each program says its own.
[[nodiscard]] std::vector<transport_kind> transport_kinds();

} // namespace posthorn::transports
