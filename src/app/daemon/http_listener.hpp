// A small HTTP server for those who look after the daemon: it answers GET and HEAD and
// nothing else.
#pragma once

#include "app/daemon/config.hpp"
#include <posthorn/environment.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace posthorn::daemon {

struct http_answer {
    int status = 200;
    std::string type = "text/plain; charset=utf-8";
    std::string body = {};
};

/// Listens from its making to its destruction.
/// Threads: `answer` is called from threads of its own. It must not throw.
class http_listener {
public:
    using answering = std::function<http_answer(std::string_view path)>;

    /// Throws: `error` with `unavailable` if nobody can listen there.
    http_listener(const listen_address& where, answering answer, log_sink log = {});
    http_listener(const http_listener&) = delete;
    http_listener& operator=(const http_listener&) = delete;
    ~http_listener();

    [[nodiscard]] const listen_address& address() const; ///< with the port that it got

    /// Not so while the system lets nobody in, which is logged and tried again.
    [[nodiscard]] bool is_listening() const noexcept;

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace posthorn::daemon
