// From our options to a configuration of librdkafka, with everything checked that can be without a
// broker. What is wrong is named; a secret is not.
#pragma once

#include "transport/kafka/handles.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/kafka.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace posthorn::kafka {

/// The brokers of `kafka://host:port,host2:port`, with the port that is usual where none is given.
/// Throws: `error` with `invalid_argument`.
[[nodiscard]] std::string brokers_of(std::string_view url);

/// Whether Kafka can have a topic of this name.
[[nodiscard]] bool is_topic(std::string_view name) noexcept;

/// What a client hands to its callbacks.
struct client_context {
    std::shared_ptr<const environment> surroundings; // shared with whoever made the client
    void* owner = nullptr;

    /// Of a callback.
    template <typename Owner>
    [[nodiscard]] static Owner& owner_of(void* opaque)
    {
        return *static_cast<Owner*>(static_cast<client_context*>(opaque)->owner);
    }
};

/// A configuration that grows by names and values.
class configuration {
public:
    /// Lifetime: the context lives as long as the client.
    configuration(std::string_view url, const kafka_access& access, client_context& context);

    /// Throws: `error` with `invalid_argument` that names the setting.
    void set(const std::string& name, const std::string& value);

    /// What the user says. Throws: the same, and for names that are not theirs to set.
    void set_all(const kafka_settings& settings);

    [[nodiscard]] rd_kafka_conf_t* get() const noexcept { return conf_.get(); }

    /// Makes the client. Throws: `error` with `invalid_argument` if the settings contradict.
    [[nodiscard]] client_handle make(rd_kafka_type_t kind) &&;

private:
    conf_handle conf_;
};

} // namespace posthorn::kafka
