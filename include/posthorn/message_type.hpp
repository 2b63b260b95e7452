// Typed messages: a plain struct, its topic, and how it becomes a payload.
//
//     struct order_placed { std::int64_t order_id; };
//     template <> struct posthorn::message_type<order_placed> {
//         static constexpr std::string_view topic = "orders.placed";
//     };
//
// The payload is JSON, by nlohmann's conversions, when <posthorn/json.hpp> is included. Another
// format is a `codec` in the specialisation: a type with `encode(const T&)` and `decode<T>(bytes)`.
#pragma once

#include <posthorn/message.hpp>

#include <concepts>
#include <string>
#include <string_view>

namespace posthorn {

/// Specialise it for your own types.
template <typename Type>
struct message_type;

/// A struct that has a `message_type`.
template <typename Type>
concept typed_message = requires
{
    {
        message_type<Type>::topic
        } -> std::convertible_to<std::string_view>;
};

/// The codec unless another one is given; defined in <posthorn/json.hpp>.
struct json_codec;

namespace runtime {

// Depends on the type, so that the codec need not be complete before it is used.
template <typename Codec, typename Type>
struct codec_for {
    using type = Codec;
};

template <typename Type>
struct codec_of : codec_for<json_codec, Type> {};

template <typename Type>
    requires requires
    {
        typename message_type<Type>::codec;
    }
struct codec_of<Type> : codec_for<typename message_type<Type>::codec, Type> {};

template <typename Type>
Type decode(std::string_view payload)
{
    return codec_of<Type>::type::template decode<Type>(payload);
}

} // namespace runtime

/// The message that carries a value.
template <typed_message Type>
[[nodiscard]] message to_message(const Type& value)
{
    return {.topic = std::string(message_type<Type>::topic),
            .payload = runtime::codec_of<Type>::type::encode(value)};
}

} // namespace posthorn
