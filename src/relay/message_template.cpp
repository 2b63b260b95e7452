// Templates: read once, filled for each message.
#include "core/trace_context.hpp"
#include <posthorn/error.hpp>
#include <posthorn/relay.hpp>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace posthorn {
namespace {

constexpr std::string_view known_places =
    "{topic}, {topic.N}, {key}, {id}, {store} and {header.NAME}";

// The characters that mean nothing in a URL.
bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void append_encoded(std::string& to, std::string_view value)
{
    for (const char c : value)
        if (is_unreserved(c))
            to.push_back(c);
        else
            fmt::format_to(std::back_inserter(to), "%{:02X}", static_cast<unsigned char>(c));
}

// The Nth part between dots, from 1; empty: there is none.
std::string_view part_of(std::string_view topic, std::size_t number)
{
    for (std::size_t part = 1;; ++part) {
        const auto dot = topic.find('.');
        if (part == number)
            return topic.substr(0, dot);
        if (dot == std::string_view::npos)
            return {};
        topic.remove_prefix(dot + 1);
    }
}

} // namespace

message_template::piece message_template::place_named(std::string_view name)
{
    constexpr std::string_view part = "topic.";
    constexpr std::string_view header = "header.";
    if (name == "topic")
        return {.what = place::topic};
    if (name == "key")
        return {.what = place::key};
    if (name == "id")
        return {.what = place::id};
    if (name == "store")
        return {.what = place::store};
    if (name.starts_with(header) && name.size() > header.size())
        return {.what = place::header, .text = std::string(name.substr(header.size()))};
    if (name.starts_with(part)) {
        const auto digits = name.substr(part.size());
        std::size_t number = 0;
        const auto [end, problem] =
            std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (problem == std::errc{} && end == digits.data() + digits.size() && number > 0)
            return {.what = place::topic_part, .number = number};
    }
    throw error(error_code::invalid_argument,
                fmt::format("a template has no place '{{{}}}': there are {}", name, known_places));
}

message_template::message_template(std::string_view text)
    : url_(text.starts_with("http://") || text.starts_with("https://"))
{
    std::string plain;
    const auto end_plain = [&] {
        if (!plain.empty())
            pieces_.push_back({.text = std::exchange(plain, {})});
    };
    while (!text.empty()) {
        const char c = text.front();
        if ((c == '{' || c == '}') && text.size() > 1 && text[1] == c) {
            plain.push_back(c);
            text.remove_prefix(2);
        } else if (c == '{') {
            const auto end = text.find('}');
            if (end == std::string_view::npos)
                throw error(error_code::invalid_argument,
                            fmt::format("a template has a '{{' without its '}}' at '{}': write "
                                        "'{{{{' for a brace",
                                        text));
            end_plain();
            pieces_.push_back(place_named(text.substr(1, end - 1)));
            text.remove_prefix(end + 1);
        } else if (c == '}') {
            throw error(error_code::invalid_argument,
                        "a template has a '}' without its '{': write '}}' for a brace");
        } else {
            plain.push_back(c);
            text.remove_prefix(1);
        }
    }
    end_plain();
}

std::string message_template::value_of(const piece& which, const delivery& with,
                                       std::string_view store)
{
    std::string_view value;
    std::string what;
    switch (which.what) {
    case place::text: return which.text;
    case place::id: return to_string(with.receipt.id);
    case place::topic: return with.topic;
    case place::topic_part:
        value = part_of(with.topic, which.number);
        what = fmt::format("part {} in its topic", which.number);
        break;
    case place::key:
        value = with.ordering_key;
        what = "ordering key";
        break;
    case place::store:
        value = store;
        what = "store with a name";
        break;
    case place::header:
        value = core::find_header(with.headers, which.text);
        what = fmt::format("header '{}'", which.text);
        break;
    }
    if (value.empty())
        throw permanent_failure(
            fmt::format("the relay's template asks for what this message lacks: no {}", what));
    return std::string(value);
}

std::string message_template::filled(const delivery& with, std::string_view store) const
{
    std::string result;
    for (const auto& each : pieces_) {
        if (each.what == place::text)
            result += each.text;
        else if (url_)
            append_encoded(result, value_of(each, with, store));
        else
            result += value_of(each, with, store);
    }
    return result;
}

} // namespace posthorn
