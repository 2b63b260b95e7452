// From our options to a configuration of librdkafka, with everything checked that can be without a
// broker. What is wrong is named; a secret is not.
#pragma once

#include "transport/kafka/handles.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/kafka.hpp>

#include <string>
#include <string_view>

namespace posthorn::kafka {

/// The brokers of `kafka://host:port,host2:port`, with the port that is usual where none is given.
/// Throws: `error` with `invalid_argument`.
[[nodiscard]] std::string brokers_of(std::string_view url);

/// Whether Kafka can have a topic of this name.
[[nodiscard]] bool is_topic(std::string_view name) noexcept;

/// A configuration that grows by names and values.
class configuration {
public:
    /// Its log lines go to `surroundings`. Lifetime: those must live as long as the client.
    configuration(std::string_view url, const kafka_access& access,
                  const environment& surroundings);

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
