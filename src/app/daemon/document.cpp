// TOML, read by toml++ and copied into values of our own.
#include "app/daemon/document.hpp"

#include <toml++/toml.h>

#include <algorithm>

namespace posthorn::daemon {
namespace {

place place_of(const toml::source_region& region)
{
    return {.line = region.begin.line, .column = region.begin.column};
}

value copied(const toml::node& from);

value copied_table(const toml::table& from)
{
    value result{.is = value::kind::table, .at = place_of(from.source())};
    for (const auto& [key, each] : from)
        result.members.push_back(
            {.name = std::string(key.str()), .at = place_of(key.source()), .is = copied(each)});
    // The library sorts by name; people read from top to bottom.
    std::ranges::stable_sort(result.members, {}, &member::at);
    return result;
}

value copied(const toml::node& from)
{
    if (const auto* table = from.as_table())
        return copied_table(*table);
    value result{.at = place_of(from.source())};
    if (const auto* array = from.as_array()) {
        result.is = value::kind::array;
        for (const auto& each : *array)
            result.items.push_back(copied(each));
    } else if (const auto* text = from.as_string()) {
        result.is = value::kind::text;
        result.text = text->get();
    } else if (const auto* whole = from.as_integer()) {
        result.is = value::kind::whole;
        result.whole = whole->get();
    } else if (const auto* flag = from.as_boolean()) {
        result.is = value::kind::flag;
        result.flag = flag->get();
    } else if (const auto* real = from.as_floating_point()) {
        result.is = value::kind::real;
        result.real = real->get();
    } else {
        result.is = value::kind::time;
    }
    return result;
}

// The library quotes values, such as a number that is too large, and a value may be a secret.
// Single characters stay: they say what is wrong. So does the name of a key that is there twice.
std::string without_quotations(std::string_view message)
{
    std::string result;
    if (message.find("cannot redefine") != std::string_view::npos)
        return result.append(message);
    while (!message.empty()) {
        const auto open = message.find('\'');
        const auto close = open == std::string_view::npos ? open : message.find('\'', open + 1);
        if (close == std::string_view::npos)
            break;
        const auto quoted = message.substr(open + 1, close - open - 1);
        result += message.substr(0, open);
        result += quoted.size() <= 2 || quoted == "true" || quoted == "false"
                      ? message.substr(open, close - open + 1)
                      : std::string_view("'…'");
        message.remove_prefix(close + 1);
    }
    return result.append(message);
}

// A key of many parts is a table in a table in a table, and the library takes such tables apart by
// recursion, which ends the process for want of stack. Text in quotes counts like bare text here:
// no honest file has that many words with nothing but dots between them.
constexpr int key_parts_max = 256;

void refuse_deep_keys(std::string_view text)
{
    place at{.line = 1, .column = 1};
    int dots = 0;
    for (const char each : text) {
        const bool in_a_key = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                              (each >= '0' && each <= '9') ||
                              std::string_view("_-.\"' \t").find(each) != std::string_view::npos;
        dots = in_a_key ? dots + (each == '.' ? 1 : 0) : 0;
        if (dots >= key_parts_max)
            throw not_toml{at, "a key may have 256 parts at most"};
        ++at.column;
        if (each == '\n')
            at = {.line = at.line + 1, .column = 1};
    }
}

} // namespace

value read_toml(std::string_view text)
{
    refuse_deep_keys(text);
    try {
        return copied_table(toml::parse(text));
    } catch (const toml::parse_error& wrong) {
        throw not_toml{place_of(wrong.source()), without_quotations(wrong.description())};
    }
}

} // namespace posthorn::daemon
