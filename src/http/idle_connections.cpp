// Whoever wants something says so right after connecting: what arrives later than this is not worth
// a thread that others need.
#include "http/idle_connections.hpp"

#include <posthorn/environment.hpp>

#include <algorithm>
#include <sys/socket.h>

namespace posthorn::http {
namespace {

using namespace std::chrono_literals;

constexpr duration patience = 50ms;

// One who was sent away takes a moment to leave; meanwhile it need not be the next one's turn.
constexpr duration a_moment = 2ms;

monotonic_time this_moment()
{
    static const auto clock = environment::system().clock;
    return clock->monotonic();
}

} // namespace

idle_connections::stay::stay(idle_connections& among, int socket) : among_(among)
{
    const std::lock_guard lock(among_.mutex_);
    place_ = among_.all_.insert(among_.all_.end(), {.socket = socket, .since = this_moment()});
}

idle_connections::stay::~stay()
{
    const std::lock_guard lock(among_.mutex_);
    among_.all_.erase(place_);
}

duration idle_connections::patience_left() const
{
    const std::lock_guard lock(mutex_);
    const auto left = all_.empty() ? patience : all_.front().since + patience - this_moment();
    return std::max(left, a_moment);
}

void idle_connections::send_one_away()
{
    const std::lock_guard lock(mutex_);
    if (all_.empty() || this_moment() < all_.front().since + patience)
        return;
    (void)::shutdown(all_.front().socket, SHUT_RD);
    all_.splice(all_.end(), all_,
                all_.begin()); // it is on its way out, and then it is another's turn
    all_.back().since = this_moment();
}

} // namespace posthorn::http
