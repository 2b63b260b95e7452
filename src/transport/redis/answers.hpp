// What Redis' replies mean for a message.
#pragma once

#include <posthorn/transport.hpp>

#include <string_view>

namespace posthorn::transports {

/// What an error says about the message that it answers.
[[nodiscard]] publish_answer redis_refusal(std::string_view error, std::string_view stream);

/// Whether the connection leads to a server that is of no use to us now: a replica, one that is
/// starting, or one that does not know us any more.
[[nodiscard]] bool speaks_of_server(std::string_view error);

} // namespace posthorn::transports
