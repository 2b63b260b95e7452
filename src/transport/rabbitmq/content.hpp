// Messages as AMQP carries them: properties, a table of headers, and a body.
#pragma once

#include "transport/rabbitmq/wire.hpp"
#include <posthorn/feeds.hpp>
#include <posthorn/transport.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::rabbitmq {

/// Where a message goes.
struct route {
    std::string_view exchange;
    std::string_view routing_key;
};

/// What a message becomes. Lifetime: of the message; not to be moved once it is filled.
class outgoing_content {
public:
    outgoing_content() = default;
    outgoing_content(const outgoing_content&) = delete;
    outgoing_content& operator=(const outgoing_content&) = delete;

    /// Why it cannot be: a name or value that AMQP has no room for. None: `properties` are right.
    [[nodiscard]] std::optional<std::string> fill(const transport_message& from,
                                                  std::string_view source, bool persistent);

    amqp_basic_properties_t properties{};

private:
    void fill_short(const transport_message& from);

    headers envelope_;
    std::string id_;
    std::vector<amqp_table_entry_t> entries_; // of envelope_
};

/// Puts a delivered or returned message together from its frames.
class incoming_content {
public:
    struct whole {
        headers table;
        std::string message_id;
        std::string type;
        std::string body;
    };

    void begin();

    /// True: it is complete, and can be taken. Throws: `broken` for a frame out of its turn.
    [[nodiscard]] bool add(const amqp_frame_t& frame);
    [[nodiscard]] whole take();

    [[nodiscard]] bool expected() const noexcept { return expected_; }

private:
    bool expected_ = false;
    bool has_properties_ = false;
    std::uint64_t missing_ = 0;
    whole content_;
};

} // namespace posthorn::rabbitmq
