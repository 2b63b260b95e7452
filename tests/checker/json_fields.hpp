// One JSON object, read field by field: what is missing, of the wrong type or unknown is named.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace posthorn::checker {

/// Everything here throws `error` with `invalid_argument`.
class json_fields {
public:
    [[nodiscard]] static json_fields parse(std::string_view line);

    [[nodiscard]] bool has(std::string_view name) const { return object_.contains(name); }
    [[nodiscard]] std::string text(std::string_view name);
    [[nodiscard]] std::int64_t integer(std::string_view name);
    [[nodiscard]] timestamp time(std::string_view name);
    [[nodiscard]] message_id id(std::string_view name);

    [[nodiscard]] std::string text_or_empty(std::string_view name);
    [[nodiscard]] std::int64_t integer_or_zero(std::string_view name);
    [[nodiscard]] std::optional<timestamp> optional_time(std::string_view name);
    [[nodiscard]] bool flag(std::string_view name); ///< false if missing

    /// Refuses fields that nobody asked for: a mistyped name must not pass for a missing one.
    void finish() const;

private:
    explicit json_fields(nlohmann::json object) : object_(std::move(object)) {}
    [[nodiscard]] const nlohmann::json& get(std::string_view name);

    nlohmann::json object_;
    std::set<std::string, std::less<>> asked_for_;
};

[[nodiscard]] std::int64_t to_json_time(timestamp when);

/// Adds a field unless it is empty, so that lines stay short.
void put(nlohmann::json& into, const char* name, const std::string& text);
void put(nlohmann::json& into, const char* name, const std::optional<timestamp>& when);

} // namespace posthorn::checker
