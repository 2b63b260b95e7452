// Headers that are text become text, there and back; what else others may send is written out.
#include "transport/rabbitmq/content.hpp"

#include "core/trace_context.hpp"
#include "transport/envelope.hpp"
#include <posthorn/correlation.hpp>

#include <fmt/format.h>

namespace posthorn::rabbitmq {
namespace {

constexpr std::size_t short_bytes_max = 255; // of a name, and of most properties
constexpr std::size_t reserved_bytes = 1U << 20U;
constexpr std::uint64_t body_bytes_max = 1U << 29U; // RabbitMQ takes no larger ones

// The parts of a UUID of version 7 that say when it was made.
std::uint64_t seconds_of(const message_id& id)
{
    std::uint64_t milliseconds = 0;
    for (std::size_t i = 0; i < 6; ++i)
        milliseconds = milliseconds << 8U | id.value().bytes[i];
    return (id.value().bytes[6] >> 4U) == 7 ? milliseconds / 1000 : 0;
}

std::optional<std::string> text_of_field(const amqp_field_value_t& field)
{
    const auto& value = field.value;
    switch (field.kind) {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES: return std::string(text_of(value.bytes));
    case AMQP_FIELD_KIND_BOOLEAN: return value.boolean != 0 ? "true" : "false";
    case AMQP_FIELD_KIND_I8: return std::to_string(value.i8);
    case AMQP_FIELD_KIND_U8: return std::to_string(value.u8);
    case AMQP_FIELD_KIND_I16: return std::to_string(value.i16);
    case AMQP_FIELD_KIND_U16: return std::to_string(value.u16);
    case AMQP_FIELD_KIND_I32: return std::to_string(value.i32);
    case AMQP_FIELD_KIND_U32: return std::to_string(value.u32);
    case AMQP_FIELD_KIND_I64: return std::to_string(value.i64);
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP: return std::to_string(value.u64);
    case AMQP_FIELD_KIND_F32: return fmt::format("{}", value.f32);
    case AMQP_FIELD_KIND_F64: return fmt::format("{}", value.f64);
    default: return std::nullopt; // tables and lists have no form that all understand
    }
}

headers headers_of(const amqp_basic_properties_t& from)
{
    headers result;
    const auto has = [&](amqp_flags_t flag) { return (from._flags & flag) != 0; };
    if (has(AMQP_BASIC_HEADERS_FLAG))
        for (int i = 0; i < from.headers.num_entries; ++i) {
            const auto& entry = from.headers.entries[i];
            if (auto text = text_of_field(entry.value))
                result.insert_or_assign(std::string(text_of(entry.key)), std::move(*text));
        }
    const auto add = [&](std::string_view name, const amqp_bytes_t& value) {
        if (core::find_header(result, name).empty() && value.len > 0)
            result.emplace(name, text_of(value));
    };
    if (has(AMQP_BASIC_CONTENT_TYPE_FLAG))
        add(transports::content_type_header, from.content_type);
    if (has(AMQP_BASIC_CORRELATION_ID_FLAG))
        add(header::correlation_id, from.correlation_id);
    return result;
}

} // namespace

std::optional<std::string> outgoing_content::fill(const transport_message& from,
                                                  std::string_view source, bool persistent)
{
    envelope_ = transports::envelope_of(from, transports::amqp_attributes, source);
    id_ = to_string(from.id);
    entries_.clear();
    for (const auto& [name, value] : envelope_) {
        if (name.size() > short_bytes_max)
            return fmt::format("a header's name is {} bytes long; AMQP has room for {}",
                               name.size(), short_bytes_max);
        amqp_table_entry_t entry{};
        entry.key = bytes_of(name);
        entry.value.kind = AMQP_FIELD_KIND_UTF8;
        entry.value.value.bytes = bytes_of(value);
        entries_.push_back(entry);
    }
    properties = {};
    properties._flags =
        AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
    properties.headers = {.num_entries = static_cast<int>(entries_.size()),
                          .entries = entries_.data()};
    properties.delivery_mode = persistent ? AMQP_DELIVERY_PERSISTENT : AMQP_DELIVERY_NONPERSISTENT;
    properties.message_id = bytes_of(id_);
    fill_short(from);
    return std::nullopt;
}

// What has no room here is in the headers all the same.
void outgoing_content::fill_short(const transport_message& from)
{
    const auto set = [&](amqp_flags_t flag, amqp_bytes_t& where, std::string_view what) {
        if (what.empty() || what.size() > short_bytes_max)
            return;
        properties._flags |= flag;
        where = bytes_of(what);
    };
    set(AMQP_BASIC_TYPE_FLAG, properties.type, from.topic);
    set(AMQP_BASIC_CONTENT_TYPE_FLAG, properties.content_type,
        core::find_header(envelope_, transports::content_type_header));
    set(AMQP_BASIC_CORRELATION_ID_FLAG, properties.correlation_id,
        core::find_header(envelope_, header::correlation_id));
    if (const auto made = seconds_of(from.id); made > 0) {
        properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        properties.timestamp = made;
    }
}

void incoming_content::begin()
{
    expected_ = true;
    has_properties_ = false;
    content_ = {};
}

bool incoming_content::add(const amqp_frame_t& frame)
{
    if (frame.frame_type == AMQP_FRAME_HEADER && expected_ && !has_properties_) {
        // The properties of another class are another struct.
        if (frame.payload.properties.class_id != AMQP_BASIC_CLASS)
            throw broken("the broker sent a message of a class that carries none");
        if (frame.payload.properties.body_size > body_bytes_max)
            throw broken("the broker sent a message that is larger than any can be");
        const auto& said =
            *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
        has_properties_ = true;
        missing_ = frame.payload.properties.body_size;
        content_.body.reserve(std::min<std::size_t>(missing_, reserved_bytes));
        content_.table = headers_of(said);
        if ((said._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0)
            content_.message_id = text_of(said.message_id);
        if ((said._flags & AMQP_BASIC_TYPE_FLAG) != 0)
            content_.type = text_of(said.type);
    } else if (frame.frame_type == AMQP_FRAME_BODY && has_properties_ &&
               frame.payload.body_fragment.len <= missing_) {
        missing_ -= frame.payload.body_fragment.len;
        content_.body.append(text_of(frame.payload.body_fragment));
    } else {
        throw broken("the broker sent part of a message out of its turn");
    }
    return missing_ == 0;
}

incoming_content::whole incoming_content::take()
{
    expected_ = false;
    has_properties_ = false;
    return std::move(content_);
}

} // namespace posthorn::rabbitmq
