// Ours and those of CloudEvents, there and back.
#include "transport/envelope.hpp"

#include "core/job.hpp"
#include "core/trace_context.hpp"
#include <posthorn/correlation.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

namespace posthorn::transports {
namespace {

// Attributes that say what our own headers say as well.
constexpr std::string_view id_attribute = "id";
constexpr std::string_view type_attribute = "type";
constexpr std::string_view key_attribute = "partitionkey";
constexpr std::array journey{id_attribute,
                             type_attribute,
                             key_attribute,
                             std::string_view("source"),
                             std::string_view("specversion"),
                             std::string_view("time")};

std::string named(attribute_style style, std::string_view attribute)
{
    return std::string(style.prefix).append(attribute);
}

// A UUID of version 7 begins with the milliseconds since 1970.
std::optional<timestamp> time_of(const message_id& id)
{
    const auto& bytes = id.value().bytes;
    if ((bytes[6] >> 4U) != 7)
        return std::nullopt;
    std::int64_t milliseconds = 0;
    for (std::size_t i = 0; i < 6; ++i)
        milliseconds = milliseconds << 8 | bytes[i];
    return timestamp{std::chrono::milliseconds{milliseconds}};
}

// Takes a header out; empty: there was none.
std::string taken(headers& from, std::string_view name)
{
    std::string value(core::find_header(from, name));
    core::erase_header(from, name);
    return value;
}

void prefer(std::string& into, std::string better)
{
    if (!better.empty())
        into = std::move(better);
}

} // namespace

headers envelope_of(const transport_message& what, attribute_style style, std::string_view source)
{
    auto result = what.headers;
    const auto set = [&](std::string name, std::string value) {
        if (!value.empty())
            result.insert_or_assign(std::move(name), std::move(value));
    };
    set(std::string(header::message_id), to_string(what.id));
    set(std::string(topic_header), what.topic);
    set(std::string(key_header), what.key);
    if (style.prefix.empty())
        return result;
    set(named(style, id_attribute), to_string(what.id));
    set(named(style, type_attribute), what.topic);
    set(named(style, key_attribute), what.key);
    set(named(style, "source"), std::string(source));
    set(named(style, "specversion"), "1.0");
    if (const auto made = time_of(what.id))
        set(named(style, "time"), core::iso_text(*made));
    return result;
}

fed_message opened(headers envelope, std::string payload, arrival known, attribute_style style)
{
    fed_message result{.id = std::move(known.id),
                       .topic = std::move(known.topic),
                       .key = std::move(known.key),
                       .payload = std::move(payload)};
    if (!style.prefix.empty()) {
        prefer(result.id, taken(envelope, named(style, id_attribute)));
        prefer(result.topic, taken(envelope, named(style, type_attribute)));
        prefer(result.key, taken(envelope, named(style, key_attribute)));
        for (const auto attribute : journey)
            core::erase_header(envelope, named(style, attribute));
    }
    prefer(result.id, taken(envelope, header::message_id));
    prefer(result.topic, taken(envelope, topic_header));
    prefer(result.key, taken(envelope, key_header));
    result.headers = std::move(envelope);
    return result;
}

} // namespace posthorn::transports
