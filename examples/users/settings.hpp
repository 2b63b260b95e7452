// What can be set, and what holds unless it is. users.toml lists it with comments.
#pragma once

#include <posthorn/time.hpp>

#include <cstddef>
#include <string>

namespace users {

using std::chrono::hours;
using std::chrono::seconds;

struct settings {
    struct service_settings {
        int port = 8080; ///< of 127.0.0.1 alone; 0: one that is free
        std::string store = "sqlite:users.db";
        std::string mail_folder = "mail";
        std::string directory_folder = "directory";
    } service = {};

    struct outbox_processor_settings {
        seconds polling_interval{10}; ///< at the latest: usually a bell wakes the worker
        std::size_t batch_size = 20;  ///< events that are handled at once
        seconds lease{30};            ///< after a crash others wait this long
    } outbox_processor = {};

    struct idempotency_settings {
        hours ttl{24};
        seconds lock{60}; ///< after a crash the same key waits this long
        seconds wait{2};  ///< a second click waits this long for the first
    } idempotency = {};

    struct otp_settings {
        seconds ttl{600};
    } otp = {};
};

/// Throws: `std::runtime_error` that names file, line and key of everything that is wrong.
[[nodiscard]] settings read_settings(const std::string& file);

} // namespace users
