// Connections that keep a thread though nothing is done for them: what they want has not been said
// yet, or they have their answer and are only heard out. When others wait, they have to go.
#pragma once

#include <posthorn/time.hpp>

#include <list>
#include <mutex>

namespace posthorn::http {

/// Threads: safe to use from any.
class idle_connections {
public:
    /// While it lives, a connection is one of them. Requires: its socket is open for as long.
    class stay {
    public:
        stay(idle_connections& among, int socket);
        stay(const stay&) = delete;
        stay& operator=(const stay&) = delete;
        ~stay();

    private:
        struct entry {
            int socket;
            monotonic_time since;
        };
        friend class idle_connections;

        idle_connections& among_;
        std::list<entry>::iterator place_;
    };

    /// How long it takes until one of them could be sent away.
    [[nodiscard]] duration patience_left() const;

    /// Sends the one away that has been there for longest, if it had the time to say something: no
    /// more is received from it.
    void send_one_away();

private:
    mutable std::mutex mutex_;
    std::list<stay::entry> all_; ///< the oldest first
};

} // namespace posthorn::http
