// Read by the same code that later connects, so that both see the same host.
#include "transport/webhook/target.hpp"

#include "transport/webhook/http_headers.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>

namespace posthorn::transports {
namespace {

struct url_closer {
    void operator()(CURLU* which) const { curl_url_cleanup(which); }
};

std::string part(CURLU* of, CURLUPart which, unsigned flags = 0)
{
    char* text = nullptr;
    if (curl_url_get(of, which, &text, flags) != CURLUE_OK)
        return {};
    std::string result(text);
    curl_free(text);
    return result;
}

target_reading refused_target(refusal why, std::string words)
{
    return {.target = nullptr, .instead = publish_answer::no(why, std::move(words))};
}

bool has_http_scheme(std::string_view url)
{
    const auto scheme = lower_case(url.substr(0, url.find(':')));
    return scheme == "http" || scheme == "https";
}

} // namespace

target_reading read_target(const std::string& url, const address_guard& guard)
{
    constexpr auto words = "the destination is no URL that can be used";
    const auto colon = url.find("://");
    if (colon != std::string::npos && !has_http_scheme(url))
        return refused_target(refusal::denied, "only http and https are allowed");
    if (colon == std::string::npos || url.substr(colon + 3).find_first_not_of('/') != 0)
        return refused_target(
            refusal::malformed,
            fmt::format("{}: it is not http://host/path or https://host/path", words));
    if (std::ranges::any_of(url, [](char each) {
            return each <= ' ' || each > '~' || each == '\\'; // some take it for a slash
        }))
        return refused_target(refusal::denied,
                              "the destination has characters that a URL must encode");
    const std::unique_ptr<CURLU, url_closer> read(curl_url());
    const auto problem = read ? curl_url_set(read.get(), CURLUPART_URL, url.c_str(),
                                             CURLU_DISALLOW_USER | CURLU_PATH_AS_IS)
                              : CURLUE_OUT_OF_MEMORY;
    if (problem == CURLUE_USER_NOT_ALLOWED)
        return refused_target(refusal::denied, "a URL with a user in it is not allowed");
    if (problem != CURLUE_OK)
        return refused_target(refusal::malformed,
                              fmt::format("{}: {}", words, curl_url_strerror(problem)));
    webhook_target made;
    made.url = url;
    const auto scheme = part(read.get(), CURLUPART_SCHEME);
    made.host = lower_case(part(read.get(), CURLUPART_HOST));
    made.port = part(read.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
    const auto explicit_port = part(read.get(), CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
    made.endpoint = fmt::format("{}://{}:{}", scheme, made.host, made.port);
    made.shown = fmt::format("{}://{}{}{}/…", scheme, made.host, explicit_port.empty() ? "" : ":",
                             explicit_port);
    made.hidden = part(read.get(), CURLUPART_PATH);
    if (const auto query = part(read.get(), CURLUPART_QUERY); !query.empty())
        made.hidden += "?" + query;
    if (made.host.empty() || made.port == "0")
        return refused_target(refusal::malformed, fmt::format("{}: it names no host", words));
    const auto address = address_in(made.host);
    if (address && !guard.allows(*address))
        return refused_target(refusal::denied,
                              fmt::format("{}: the address is not public, and is not among those "
                                          "that are allowed",
                                          made.shown));
    if (!address && is_misspelt_address(made.host))
        return refused_target(refusal::denied,
                              fmt::format("{}: neither a name nor an address", made.shown));
    return {.target = std::make_shared<const webhook_target>(std::move(made))};
}

} // namespace posthorn::transports
