// What libnats is told before it connects.
#pragma once

#include <posthorn/nats.hpp>

#include <nats/nats.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::transports {

struct nats_settings {
    std::vector<std::string> servers; ///< without user and password
    nats_access access;
    duration connect_within{};
    duration ping_every{};
    std::string client_name;

    /// Throws: `error` with `invalid_argument`, which never holds a password.
    [[nodiscard]] static nats_settings parse(std::string_view url, nats_access access);

    [[nodiscard]] std::string shown() const;
};

struct nats_options_deleter {
    void operator()(natsOptions* which) const noexcept { natsOptions_Destroy(which); }
};
using nats_options_handle = std::unique_ptr<natsOptions, nats_options_deleter>;

/// Throws: `error` with `invalid_argument` for files that cannot be read, and the like.
[[nodiscard]] nats_options_handle options_from(const nats_settings& settings);

/// Whether messages can be published to it: parts between dots, no blanks, no wildcards.
[[nodiscard]] bool is_subject(std::string_view text);

/// Whether it can name a stream or a consumer.
[[nodiscard]] bool is_name(std::string_view text);

} // namespace posthorn::transports
