// Ours and those of CloudEvents, there and back.
#include "transport/envelope.hpp"

#include "core/job.hpp"
#include "core/trace_context.hpp"
#include <posthorn/correlation.hpp>

#include <algorithm>
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

envelope_writer::envelope_writer(attribute_style style, std::string_view source)
    : has_attributes_(!style.prefix.empty()),
      message_id_name_(header::message_id),
      topic_name_(topic_header),
      key_name_(key_header),
      id_attribute_(named(style, id_attribute)),
      type_attribute_(named(style, type_attribute)),
      key_attribute_(named(style, key_attribute)),
      source_attribute_(named(style, "source")),
      version_attribute_(named(style, "specversion")),
      time_attribute_(named(style, "time")),
      source_(source)
{}

void envelope_writer::set(const std::string& name, const std::string& value)
{
    if (!value.empty())
        parts_.push_back({.name = &name, .value = &value});
}

std::span<const envelope_writer::part> envelope_writer::parts_of(const transport_message& what)
{
    parts_.clear();
    id_ = to_string(what.id);
    set(message_id_name_, id_);
    set(topic_name_, what.topic);
    set(key_name_, what.key);
    if (has_attributes_) {
        set(id_attribute_, id_);
        set(type_attribute_, what.topic);
        set(key_attribute_, what.key);
        set(source_attribute_, source_);
        set(version_attribute_, version_);
        if (const auto made = time_of(what.id); made != std::exchange(made_at_, made))
            time_ = made ? core::iso_text(*made) : std::string();
        set(time_attribute_, time_);
    }
    // What a message says of itself does not change what it is.
    const auto ours = parts_.size();
    for (const auto& [name, value] : what.headers)
        if (std::none_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(ours),
                         [&](const part& each) { return *each.name == name; }))
            parts_.push_back({.name = &name, .value = &value});
    return parts_;
}

headers envelope_of(const transport_message& what, attribute_style style, std::string_view source)
{
    headers result;
    envelope_writer writer(style, source);
    for (const auto& each : writer.parts_of(what))
        result.emplace(*each.name, *each.value);
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
