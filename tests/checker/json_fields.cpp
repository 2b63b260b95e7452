// Reading fields strictly: a checker that guesses what a line may have meant proves nothing.
#include "checker/json_fields.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

namespace posthorn::checker {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view what)
{
    throw error(error_code::invalid_argument, fmt::format("'{}' {}", name, what));
}

} // namespace

json_fields json_fields::parse(std::string_view line)
{
    auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object())
        throw error(error_code::invalid_argument, "this is not a JSON object");
    return json_fields(std::move(object));
}

const nlohmann::json& json_fields::get(std::string_view name)
{
    asked_for_.emplace(name);
    const auto found = object_.find(name);
    if (found == object_.end())
        refuse(name, "is missing");
    return *found;
}

std::string json_fields::text(std::string_view name)
{
    const auto& value = get(name);
    if (!value.is_string())
        refuse(name, "is not a text");
    return value.get<std::string>();
}

std::int64_t json_fields::integer(std::string_view name)
{
    const auto& value = get(name);
    if (!value.is_number_integer())
        refuse(name, "is not a whole number");
    return value.get<std::int64_t>();
}

timestamp json_fields::time(std::string_view name)
{
    return timestamp{duration{integer(name)}};
}

message_id json_fields::id(std::string_view name)
{
    const auto parsed = message_id::parse(text(name));
    if (!parsed)
        refuse(name, "is not a message id");
    return *parsed;
}

std::string json_fields::text_or_empty(std::string_view name)
{
    return has(name) ? text(name) : "";
}

std::int64_t json_fields::integer_or_zero(std::string_view name)
{
    return has(name) ? integer(name) : 0;
}

std::optional<timestamp> json_fields::optional_time(std::string_view name)
{
    return has(name) ? std::optional{time(name)} : std::nullopt;
}

bool json_fields::flag(std::string_view name)
{
    if (!has(name))
        return false;
    const auto& value = get(name);
    if (!value.is_boolean())
        refuse(name, "is neither true nor false");
    return value.get<bool>();
}

void json_fields::finish() const
{
    for (const auto& [name, value] : object_.items())
        if (!asked_for_.contains(name))
            refuse(name, "is not a field of this line");
}

std::int64_t to_json_time(timestamp when)
{
    return when.time_since_epoch().count();
}

void put(nlohmann::json& into, const char* name, const std::string& text)
{
    if (!text.empty())
        into[name] = text;
}

void put(nlohmann::json& into, const char* name, const std::optional<timestamp>& when)
{
    if (when)
        into[name] = to_json_time(*when);
}

} // namespace posthorn::checker
