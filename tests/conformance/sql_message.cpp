// What all engines share when they write a message as SQL.
#include "conformance/sql_message.hpp"

namespace posthorn::conformance {

std::string hex_of(std::string_view bytes)
{
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result;
    for (const char each : bytes) {
        const auto value = static_cast<unsigned char>(each);
        result += digits[value >> 4U];
        result += digits[value & 0xfU];
    }
    return result;
}

std::string hex_of(message_id id)
{
    auto result = to_string(id);
    std::erase(result, '-');
    return result;
}

std::string sql_quoted(std::string_view text)
{
    std::string result = "'";
    for (const char each : text)
        result += each == '\'' ? std::string("''") : std::string(1, each);
    return result + "'";
}

std::string described(const sql_message& message)
{
    std::string result;
    for (const auto& [name, value] : message)
        result += name + " = " +
                  std::visit(overloaded{[](std::nullptr_t) { return std::string("NULL"); },
                                        [](std::int64_t number) { return std::to_string(number); },
                                        [](const std::string& text) { return sql_quoted(text); },
                                        [](const sql_bytes& each) { return hex_of(each.value); },
                                        [](const sql_json& each) { return each.document; },
                                        [](message_id id) { return to_string(id); },
                                        [](const sql_raw& each) { return each.literal; }},
                             value)
                      .substr(0, 100) +
                  "; ";
    return result;
}

} // namespace posthorn::conformance
