// Opening a transport for webhooks with a look-up of names that is not the system's, as tests do.
#pragma once

#include "transport/webhook/batch.hpp"
#include <posthorn/webhook.hpp>

namespace posthorn::transports {

[[nodiscard]] std::shared_ptr<transport> open_webhook_with(webhook_options options,
                                                           environment world, name_lookup lookup);

} // namespace posthorn::transports
