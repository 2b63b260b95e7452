// One setting after the other; librdkafka knows which of them exist.
#include "transport/kafka/configuration.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace posthorn::kafka {
namespace {

constexpr std::string_view scheme = "kafka://";

[[noreturn]] void invalid(const std::string& what)
{
    throw error(error_code::invalid_argument, what);
}

// Settings that our promises rest on, and what to say instead.
struct reserved_setting {
    std::string_view name;
    std::string_view instead;
};
constexpr std::array reserved{
    reserved_setting{"bootstrap.servers", "say it as the URL"},
    reserved_setting{"metadata.broker.list", "say it as the URL"},
    reserved_setting{"acks", "a message is accepted when all replicas in sync have it"},
    reserved_setting{"request.required.acks", "all replicas in sync have to acknowledge"},
    reserved_setting{"enable.idempotence", "the producer is always idempotent"},
    reserved_setting{"enable.gapless.guarantee", "order is kept by key"},
    reserved_setting{"transactional.id", "messages are not sent in transactions"},
    reserved_setting{"message.timeout.ms", "each call says how long it may take"},
    reserved_setting{"delivery.timeout.ms", "each call says how long it may take"},
    reserved_setting{"message.max.bytes", "say payload_bytes_max"},
    reserved_setting{"linger.ms", "say linger"},
    reserved_setting{"queue.buffering.max.ms", "say linger"},
    reserved_setting{"enable.auto.commit", "what is acknowledged is committed"},
    reserved_setting{"enable.auto.offset.store", "what is acknowledged is committed"},
    reserved_setting{"auto.offset.reset", "say start"},
    reserved_setting{"group.id", "say group"},
    reserved_setting{"sasl.username", "say access.user"},
    reserved_setting{"sasl.password", "say access.password"},
};

bool is_secret(std::string_view name)
{
    return name.find("password") != std::string_view::npos ||
           name.find("secret") != std::string_view::npos ||
           name.find("pem") != std::string_view::npos || name == "ssl.key";
}

// Its levels are those of syslog.
void log_line(const rd_kafka_t* client, int level, const char* facility, const char* text)
{
    const auto& surroundings = *static_cast<client_context*>(rd_kafka_opaque(client))->surroundings;
    if (!surroundings.log)
        return;
    auto ours = log_level::debug; // its own words for what our warnings say
    if (level <= 3)
        ours = log_level::info;
    surroundings.log(ours, fmt::format("kafka: {}: {}", facility, text));
}

} // namespace

std::string brokers_of(std::string_view url)
{
    const auto expected = "a Kafka URL is kafka://host:9092, or several as kafka://a:9092,b:9092";
    if (!url.starts_with(scheme))
        invalid(expected);
    url.remove_prefix(scheme.size());
    if (url.ends_with('/'))
        url.remove_suffix(1);
    if (url.find('@') != std::string_view::npos)
        invalid("a Kafka URL has no user and password: say them as access.user and "
                "access.password");
    if (url.empty() || url.find_first_of("/?# \t") != std::string_view::npos)
        invalid(expected);
    std::string result;
    while (true) {
        const auto comma = url.find(',');
        const auto one = url.substr(0, comma);
        if (one.empty() || one.front() == ':' || one.back() == ':')
            invalid(expected);
        if (!result.empty())
            result += ',';
        result += one;
        const auto colon = one.rfind(':');
        const auto bracket = one.rfind(']'); // of an IPv6 address, which has colons itself
        if (colon == std::string_view::npos ||
            (bracket != std::string_view::npos && colon < bracket))
            result += ":9092";
        else if (const auto port = one.substr(colon + 1);
                 port.size() > 5 ||
                 !std::ranges::all_of(port, [](char each) { return each >= '0' && each <= '9'; }))
            invalid(expected);
        if (comma == std::string_view::npos)
            return result;
        url.remove_prefix(comma + 1);
    }
}

bool is_topic(std::string_view name) noexcept
{
    constexpr std::size_t bytes_max = 249;
    return !name.empty() && name.size() <= bytes_max && name != "." && name != ".." &&
           std::ranges::all_of(name, [](char each) {
               return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                      (each >= '0' && each <= '9') || each == '.' || each == '_' || each == '-';
           });
}

configuration::configuration(std::string_view url, const kafka_access& access,
                             client_context& context)
    : conf_(rd_kafka_conf_new())
{
    rd_kafka_conf_set_opaque(conf_.get(), &context);
    rd_kafka_conf_set_log_cb(conf_.get(), &log_line);
    set("bootstrap.servers", brokers_of(url));
    set("client.id", "posthorn");
    set("socket.keepalive.enable", "true");
    set("socket.nagle.disable", "true");
    set("reconnect.backoff.ms", "50"); // the client adds chance to each wait by itself
    set("reconnect.backoff.max.ms", "2000");
    const bool sasl = !access.user.empty();
    if (!sasl && !access.password.empty())
        invalid("access.password without access.user: say both, or neither");
    if (access.certificate_file.empty() != access.private_key_file.empty())
        invalid("access.certificate_file and access.private_key_file go together");
    if (!access.tls && !(access.ca_file.empty() && access.certificate_file.empty()))
        invalid("certificates are for TLS: say access.tls, too");
    set("security.protocol",
        sasl ? (access.tls ? "sasl_ssl" : "sasl_plaintext") : (access.tls ? "ssl" : "plaintext"));
    if (sasl) {
        set("sasl.mechanisms", access.mechanism);
        set("sasl.username", access.user);
        set("sasl.password", access.password);
    }
    if (!access.tls)
        return;
    set("enable.ssl.certificate.verification", access.verify ? "true" : "false");
    set("ssl.endpoint.identification.algorithm", access.verify ? "https" : "none");
    if (!access.ca_file.empty())
        set("ssl.ca.location", access.ca_file);
    if (!access.certificate_file.empty()) {
        set("ssl.certificate.location", access.certificate_file);
        set("ssl.key.location", access.private_key_file);
        if (!access.private_key_password.empty())
            set("ssl.key.password", access.private_key_password);
    }
}

void configuration::set(const std::string& name, const std::string& value)
{
    std::array<char, 512> why{};
    switch (rd_kafka_conf_set(conf_.get(), name.c_str(), value.c_str(), why.data(), why.size())) {
    case RD_KAFKA_CONF_OK: return;
    case RD_KAFKA_CONF_UNKNOWN:
        invalid(fmt::format("'{}' is no setting of librdkafka {}", name, rd_kafka_version_str()));
    default:
        invalid(is_secret(name) ? fmt::format("the value of the setting '{}' is not valid", name)
                                : fmt::format("the setting '{}': {}", name, why.data()));
    }
}

void configuration::set_all(const kafka_settings& settings)
{
    for (const auto& [name, value] : settings) {
        const auto* found = std::ranges::find(reserved, name, &reserved_setting::name);
        if (found != reserved.end())
            invalid(fmt::format("the setting '{}' cannot be set: {}", name, found->instead));
        set(name, value);
    }
}

client_handle configuration::make(rd_kafka_type_t kind) &&
{
    std::array<char, 512> why{};
    client_handle made(rd_kafka_new(kind, conf_.get(), why.data(), why.size()));
    if (!made)
        invalid(fmt::format("Kafka's client cannot be made: {}", why.data()));
    (void)conf_.release(); // the client's now
    return made;
}

} // namespace posthorn::kafka
