// Where in a URL secrets stand, and taking them out of texts.
#include "app/daemon/secret.hpp"

#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace posthorn::daemon {
namespace {

constexpr std::size_t secret_bytes_min = 4;

// A path that somebody keeps secret is a long one, and /api is a part of many texts.
constexpr std::size_t path_bytes_min = 8;

struct url_parts {
    std::string_view scheme = {};
    std::optional<std::string_view> who = {}; ///< what stands before the @
    std::string_view place = {};              ///< what follows: host, port, and a path unless HTTP
    std::string_view target = {};             ///< of HTTP: path and parameters
    std::string_view parameters = {};         ///< of all others, without the question mark
    bool is_plain = false;                    ///< no // at all: `place` is everything

    /// It is not certain where the password ends: all up to the last @ may belong to it.
    std::optional<std::string_view> doubtful = {};

    [[nodiscard]] bool is_http() const { return scheme == "http" || scheme == "https"; }

    /// Whoever stands there alone is no user, but a token.
    [[nodiscard]] bool has_tokens() const
    {
        return is_http() || scheme == "nats" || scheme == "tls";
    }
};

// A password that was not encoded may hold what ends it for every reader: / and ? in a URL of HTTP,
// and ? in all others. Then an @ follows that may also belong to a path or a parameter.
std::optional<std::string_view> doubtful_credentials(std::string_view rest, bool is_http)
{
    const auto at = rest.rfind('@');
    const auto end = std::min(rest.size(), rest.find_first_of(is_http ? "/?#" : "?"));
    if (at == std::string_view::npos || at < end)
        return std::nullopt;
    const auto authority = rest.substr(0, end);
    const bool is_sure = is_http && authority.find_first_of(":@") == std::string_view::npos;
    return is_sure ? std::nullopt : std::optional(rest.substr(0, at));
}

url_parts parts_of(std::string_view url)
{
    url_parts result{.scheme = url.substr(0, url.find(':'))};
    const auto slashes = url.find("//");
    const auto question = url.find('?');
    if (slashes == std::string_view::npos || slashes > question) {
        result.is_plain = true;
        result.place = url.substr(0, question);
    } else if (const auto doubtful =
                   doubtful_credentials(url.substr(slashes + 2), result.is_http())) {
        result.doubtful = doubtful;
    } else if (result.is_http()) {
        const auto end = url.find_first_of("/?#", slashes + 2);
        result.place = url.substr(slashes + 2, end - std::min(end, slashes + 2));
        result.target = end == std::string_view::npos ? std::string_view{} : url.substr(end);
    } else {
        // A password may hold a slash.
        result.place = url.substr(0, question).substr(slashes + 2);
    }
    if (!result.is_http() && question != std::string_view::npos)
        result.parameters = url.substr(question + 1);
    if (const auto at = result.place.rfind('@'); !result.is_plain && at != std::string_view::npos) {
        result.who = result.place.substr(0, at);
        result.place.remove_prefix(at + 1);
    }
    return result;
}

// Several stand with commas between. A password may hold a comma, but no scheme after it.
std::vector<std::string_view> urls_of(std::string_view list)
{
    const auto begins_url = [](std::string_view text) {
        const auto colon = text.find("://");
        return colon != std::string_view::npos && colon > 0 &&
               std::ranges::all_of(text.substr(0, colon),
                                   [](char c) { return c >= 'a' && c <= 'z'; });
    };
    std::vector<std::string_view> result;
    std::size_t begin = 0;
    for (auto comma = list.find(','); comma != std::string_view::npos;
         comma = list.find(',', comma + 1))
        if (begins_url(list.substr(comma + 1))) {
            result.push_back(list.substr(begin, comma - begin));
            begin = comma + 1;
        }
    result.push_back(list.substr(begin));
    return result;
}

std::string shown_part(std::string_view url)
{
    const auto parts = parts_of(url);
    if (parts.is_plain)
        return std::string(parts.place);
    auto result = fmt::format("{}//", url.substr(0, url.find("//")));
    if (parts.doubtful)
        return result + "***";
    if (parts.who) {
        const auto colon = parts.who->find(':');
        if (colon != std::string_view::npos)
            result += fmt::format("{}:***@", parts.who->substr(0, colon));
        else
            result += fmt::format("{}@", parts.has_tokens() ? "***" : *parts.who);
    }
    result += parts.place;
    if (!parts.target.empty())
        result += parts.target == "/" ? "/" : "/…";
    return result;
}

// Of parameters those with such names.
void add_telling(std::vector<std::string>& to, std::string_view parameters)
{
    while (!parameters.empty()) {
        const auto pair = parameters.substr(0, parameters.find('&'));
        parameters.remove_prefix(std::min(parameters.size(), pair.size() + 1));
        const auto equals = pair.find('=');
        if (equals != std::string_view::npos && contract::is_secret_name(pair.substr(0, equals)))
            to.emplace_back(pair.substr(equals + 1));
    }
}

// Libraries take a URL apart elsewhere than its author meant, and quote the pieces.
void add_with_pieces(std::vector<std::string>& to, std::string_view text)
{
    constexpr std::string_view separators = "/?#@&=";
    to.emplace_back(text);
    if (text.find_first_of(separators) == std::string_view::npos)
        return;
    while (!text.empty()) {
        const auto end = std::min(text.size(), text.find_first_of(separators));
        to.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(text.size(), end + 1));
    }
}

void add_password(std::vector<std::string>& to, const url_parts& from)
{
    const auto who = from.doubtful ? from.doubtful : from.who;
    if (!who)
        return;
    const auto colon = who->find(':');
    if (colon != std::string_view::npos)
        add_with_pieces(to, who->substr(colon + 1));
    else if (from.has_tokens())
        add_with_pieces(to, *who);
}

void add_target(std::vector<std::string>& to, std::string_view target)
{
    const auto question = std::min(target.size(), target.find('?'));
    for (const auto part :
         {target, target.substr(0, question), target.substr(std::min(target.size(), question + 1))})
        if (part.size() >= path_bytes_min)
            to.emplace_back(part);
    add_telling(to, target.substr(std::min(target.size(), question + 1)));
}

} // namespace

std::string secret_url::scheme() const
{
    const auto colon = text_.find(':');
    return colon == std::string::npos ? std::string{} : text_.substr(0, colon);
}

std::string secret_url::shown() const
{
    std::string result;
    for (const auto& each : urls_of(text_))
        result += (result.empty() ? "" : ",") + shown_part(each);
    return result;
}

std::vector<std::string> secret_url::secrets() const
{
    std::vector<std::string> result;
    for (const auto& each : urls_of(text_)) {
        const auto parts = parts_of(each);
        add_password(result, parts);
        add_telling(result, parts.parameters);
        add_target(result, parts.target);
    }
    for (std::size_t i = result.size(); i-- > 0;) {
        try {
            if (auto decoded = contract::percent_decoded(result[i]); decoded != result[i])
                result.push_back(std::move(decoded));
        } catch (const error&) { // a % that means itself
            continue;
        }
    }
    return result;
}

bool secret_url::holds_password() const
{
    return std::ranges::any_of(urls_of(text_), [](std::string_view each) {
        std::vector<std::string> found;
        const auto parts = parts_of(each);
        add_password(found, parts);
        add_telling(found, parts.parameters);
        return !found.empty();
    });
}

std::string percent_encoded(std::string_view text)
{
    std::string result;
    for (const char c : text)
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            std::string_view("-._~").find(c) != std::string_view::npos)
            result.push_back(c);
        else
            result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    return result;
}

std::vector<std::string> inherited_passwords()
{
    std::vector<std::string> result;
    for (const auto* name : {"PGPASSWORD", "MYSQL_PWD"})
        if (const char* found = std::getenv(name)) // NOLINT(concurrency-mt-unsafe): never set
            result.emplace_back(found);
    return result;
}

void redaction::add(std::string text)
{
    if (auto encoded = percent_encoded(text); text.size() >= secret_bytes_min && encoded != text)
        add_one(std::move(encoded));
    // Texts are often looked at line by line: then each line of a key is a secret.
    for (auto rest = std::string_view(text); rest.find('\n') != std::string_view::npos;) {
        const auto end = rest.find('\n');
        auto line = rest.substr(0, end);
        line.remove_suffix(line.ends_with('\r') ? 1 : 0);
        add_one(std::string(line));
        rest.remove_prefix(end + 1);
        if (rest.find('\n') == std::string_view::npos)
            add_one(std::string(rest));
    }
    add_one(std::move(text));
}

void redaction::add_one(std::string text)
{
    if (text.size() < secret_bytes_min || std::ranges::find(secrets_, text) != secrets_.end())
        return;
    const auto place = std::ranges::upper_bound(secrets_, text.size(), std::ranges::greater{},
                                                [](const auto& each) { return each.size(); });
    secrets_.insert(place, std::move(text));
}

std::string redaction::cleaned(std::string text) const
{
    constexpr std::string_view instead = "***";
    for (const auto& each : secrets_)
        for (auto at = text.find(each); at != std::string::npos;
             at = text.find(each, at + instead.size()))
            text.replace(at, each.size(), instead);
    return text;
}

} // namespace posthorn::daemon
