// The ways in over HTTP that a configuration names: listeners, each with the paths of its senders.
#pragma once

#include "app/daemon/config.hpp"
#include "app/daemon/metrics.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/stores.hpp>

#include <memory>
#include <vector>

namespace posthorn::daemon {

/// Whether this build can listen for webhooks.
[[nodiscard]] bool can_listen_for_webhooks() noexcept;

/// Throws: `error` with `invalid_argument` if nobody could listen for this.
void check_endpoint(const endpoint_settings& which);

/// How far apart two deliveries of one signed request may be and both be believed.
[[nodiscard]] duration replay_window() noexcept;

/// Somebody who listens, from its making to its destruction.
class listening {
public:
    listening() = default;
    listening(const listening&) = delete;
    listening& operator=(const listening&) = delete;
    virtual ~listening() = default;

    [[nodiscard]] virtual listen_address address() const = 0; ///< with the port that it got
    [[nodiscard]] virtual bool is_listening() const noexcept = 0;

    /// Gives the port back and returns at once. Its destruction ends what has begun: what is still
    /// being sent after a second is cut off, what is being stored is waited for.
    virtual void stop_accepting() = 0;
};

/// Listens at one address, for all paths there.
/// Throws: `error` with `invalid_argument` for what makes no sense, or `unavailable` if nobody can
/// listen there.
[[nodiscard]] std::unique_ptr<listening> listen_for_webhooks(
    const std::vector<endpoint_settings>& paths, const router& stores,
    const std::shared_ptr<metrics>& numbers, const environment& world);

} // namespace posthorn::daemon
