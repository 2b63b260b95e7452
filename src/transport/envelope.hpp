// What a message says about itself on its way, in names and values: the same for all transports.
// Beside our own headers there are the attributes of CloudEvents, as each protocol spells them.
#pragma once

#include <posthorn/feeds.hpp>
#include <posthorn/message.hpp>
#include <posthorn/transport.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::transports {

/// Ours, beside those in correlation.hpp.
inline constexpr std::string_view topic_header = "posthorn-topic";
inline constexpr std::string_view key_header = "posthorn-key";

/// By which `content-type` is known to all.
inline constexpr std::string_view content_type_header = "content-type";

/// How a protocol spells the attributes of CloudEvents 1.0 in its binary form.
struct attribute_style {
    std::string_view prefix = {}; ///< before each of them, such as `ce-`; empty: it has none
};

inline constexpr attribute_style http_attributes{"ce-"};
inline constexpr attribute_style nats_attributes{"ce-"};
inline constexpr attribute_style kafka_attributes{"ce_"};
inline constexpr attribute_style amqp_attributes{"cloudEvents:"};
inline constexpr attribute_style no_attributes{};

/// Its headers, with its id, topic and key, and the attributes: `id`, `source`, `type` (the topic),
/// `specversion`, `time` (when the id was made, if it says so) and `partitionkey` (the key).
[[nodiscard]] headers envelope_of(const transport_message& what, attribute_style style,
                                  std::string_view source);

/// The same for one message after the other, for those who only pass it on.
class envelope_writer {
public:
    struct part {
        const std::string* name;
        const std::string* value;
    };

    envelope_writer(attribute_style style, std::string_view source);

    /// Lifetime: until the next call, and as long as the message.
    [[nodiscard]] std::span<const part> parts_of(const transport_message& what);

    /// The id of that message.
    [[nodiscard]] const std::string& id() const noexcept { return id_; }

private:
    void set(const std::string& name, const std::string& value);

    bool has_attributes_;
    std::string message_id_name_;
    std::string topic_name_;
    std::string key_name_;
    std::string id_attribute_;
    std::string type_attribute_;
    std::string key_attribute_;
    std::string source_attribute_;
    std::string version_attribute_;
    std::string time_attribute_;
    std::string source_;
    std::string version_ = "1.0";

    std::string id_; ///< of the message
    std::string time_;
    std::optional<timestamp> made_at_; ///< what that says; many messages were made together
    std::vector<part> parts_;
};

/// What is known of a message beside what it says itself.
struct arrival {
    std::string id = {};    ///< the protocol's own, if it never changes
    std::string topic = {}; ///< such as the subject or the routing key
    std::string key = {};
};

/// The way back: who, what and which key, as our headers say it, else as the attributes do, else as
/// the protocol does. What only the journey needed is taken out of the headers.
[[nodiscard]] fed_message opened(headers envelope, std::string payload, arrival known,
                                 attribute_style style);

} // namespace posthorn::transports
