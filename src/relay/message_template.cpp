// Templates: read once, filled for each message. Where a value stands in a URL is told by the text
// in front of it, so a URL whose beginning comes from the message has the same rules.
#include "core/trace_context.hpp"
#include <posthorn/error.hpp>
#include <posthorn/relay.hpp>

#include <fmt/format.h>

#include <algorithm>
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

bool starts_with_caseless(std::string_view text, std::string_view lower)
{
    return text.size() >= lower.size() &&
           std::ranges::equal(text.substr(0, lower.size()), lower, [](char given, char wanted) {
               return (given >= 'A' && given <= 'Z' ? static_cast<char>(given - 'A' + 'a')
                                                    : given) == wanted;
           });
}

enum class position {
    elsewhere, ///< in no URL of http or https
    authority, ///< user, host, port: where the URL leads
    path,
    behind, ///< in the query or the fragment
};

// Where that stands which follows this text.
position position_after(std::string_view text)
{
    std::size_t length = 0;
    for (const std::string_view scheme : {"http://", "https://"})
        if (starts_with_caseless(text, scheme))
            length = scheme.size();
    if (length == 0)
        return position::elsewhere;
    if (text.find_first_of("?#", length) != std::string_view::npos)
        return position::behind;
    return text.find('/', length) == std::string_view::npos ? position::authority : position::path;
}

bool is_dots(std::string_view part)
{
    return part == "." || part == "..";
}

std::string percent_decoded(std::string_view text)
{
    std::string result;
    while (!text.empty()) {
        unsigned byte = 0;
        const auto digits = text.substr(1, 2);
        const bool is_encoded =
            text.front() == '%' && digits.size() == 2 &&
            std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr == digits.data() + 2;
        result.push_back(is_encoded ? static_cast<char>(byte) : text.front());
        text.remove_prefix(is_encoded ? 3 : 1);
    }
    return result;
}

// Many servers decode a path before they resolve its dots, so encoding them would not help.
bool has_dot_segment(std::string_view segment)
{
    const auto plain = percent_decoded(segment);
    std::string_view rest = plain;
    while (true) {
        const auto end = rest.find_first_of("/\\");
        if (is_dots(rest.substr(0, end)))
            return true;
        if (end == std::string_view::npos)
            return false;
        rest.remove_prefix(end + 1);
    }
}

// The segment around the character at `at`, in a URL's path.
std::string_view segment_at(std::string_view url, std::size_t at)
{
    const auto begin = url.rfind('/', at - 1) + 1;
    return url.substr(begin, url.find_first_of("/?#", at) - begin);
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
    check_url();
}

// What cannot be known before a message comes is refused when it is filled in.
void message_template::check_url() const
{
    if (pieces_.size() < 2 || pieces_.front().what != place::text)
        return;
    const auto& begin = pieces_.front().text;
    const bool is_half_a_scheme =
        position_after(begin) == position::elsewhere &&
        (starts_with_caseless(begin, "http:") || starts_with_caseless(begin, "https:"));
    if (is_half_a_scheme || position_after(begin) == position::authority)
        throw error(error_code::invalid_argument, // quotes nothing: a password may stand there
                    "a template has a place in front of its URL's path: a message must not change "
                    "the host; write the host out, or take the whole URL from a header");
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
    std::vector<std::size_t> in_path; // where values begin that stand in a URL's path
    for (const auto& each : pieces_) {
        if (each.what == place::text) {
            result += each.text;
            continue;
        }
        const auto value = value_of(each, with, store);
        switch (position_after(result)) {
        case position::elsewhere: result += value; break;
        case position::authority:
            throw permanent_failure("the relay's template would let this message change the host "
                                    "of a URL: a place must stand behind the host's slash");
        case position::path: in_path.push_back(result.size()); [[fallthrough]];
        case position::behind: append_encoded(result, value); break;
        }
    }
    for (const auto at : in_path)
        if (has_dot_segment(segment_at(result, at)))
            throw permanent_failure("the relay's template would let this message change the path "
                                    "of a URL: a value makes a segment '.' or '..'");
    return result;
}

} // namespace posthorn
