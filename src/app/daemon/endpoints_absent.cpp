// A build without the server for webhooks: a configuration that names one is refused.
#include "app/daemon/endpoints.hpp"
#include <posthorn/error.hpp>

namespace posthorn::daemon {

bool can_listen_for_webhooks() noexcept
{
    return false;
}

void check_endpoint(const endpoint_settings&) {}

duration replay_window() noexcept
{
    return {};
}

std::unique_ptr<listening> listen_for_webhooks(const std::vector<endpoint_settings>&, const router&,
                                               const std::shared_ptr<metrics>&, const environment&)
{
    throw error(error_code::unsupported, "this build cannot listen for webhooks");
}

} // namespace posthorn::daemon
