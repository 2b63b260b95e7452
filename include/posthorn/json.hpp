// Typed messages as JSON, by the conversions of nlohmann's library (NLOHMANN_DEFINE_TYPE_… or your
// own to_json and from_json). A header of its own, because nlohmann's takes long to compile.
#pragma once

#include <posthorn/enqueue.hpp>
#include <posthorn/handler.hpp>
#include <posthorn/message_type.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace posthorn {

struct json_codec {
    template <typename Type>
    static std::string encode(const Type& value)
    {
        return nlohmann::json(value).dump();
    }

    /// Throws: `permanent_failure`: what cannot be read today cannot be read tomorrow. The payload
    /// itself is not quoted.
    template <typename Type>
    static Type decode(std::string_view payload)
    {
        try {
            return nlohmann::json::parse(payload).template get<Type>();
        } catch (const nlohmann::json::exception& failure) {
            throw permanent_failure("the payload is not what this type expects (nlohmann error " +
                                    std::to_string(failure.id) + ")");
        }
    }
};

} // namespace posthorn
