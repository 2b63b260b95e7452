// The table of status codes, and the censor.
#include "transport/webhook/answers.hpp"

#include "core/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <unordered_set>

namespace posthorn::transports {
namespace {

constexpr std::size_t words_bytes_max = 300;
constexpr std::size_t window_bytes = 8; // so much in common is no chance

// Who is away or broken costs a message nothing. Who says no to it (a wrong secret, a route that is
// not deployed yet, a proxy with a small limit, a redirect to a page for people) says so until
// somebody puts it right, here or there: that is worth more tries, though not any number of them.
refusal why_not(int status)
{
    switch (status) {
    case 410: return refusal::gone; // the one that means never again
    case 408:                       // the request came too slowly
    case 409:                       // another request is at it, perhaps with the same message
    case 423:                       // locked
    case 425:                       // too early
        return refusal::rejected;
    case 429: return refusal::busy;
    default: return status < 500 ? refusal::declined : refusal::rejected;
    }
}

std::uint64_t window_at(std::string_view text, std::size_t from)
{
    std::uint64_t result = 0;
    std::memcpy(&result, text.data() + from, window_bytes);
    return result;
}

bool repeats(std::string_view body, const std::unordered_set<std::uint64_t>& windows,
             std::string_view secret)
{
    if (secret.size() < window_bytes)
        return secret.size() > 1 && body.find(secret) != std::string_view::npos;
    for (std::size_t i = 0; i + window_bytes <= secret.size(); ++i)
        if (windows.contains(window_at(secret, i)))
            return true;
    return false;
}

} // namespace

publish_answer answer_of(const http_answer& said, std::string_view shown, std::string_view topic)
{
    if (said.status < 300)
        return publish_answer::yes();
    auto why = why_not(said.status);
    if (said.status == 503 && said.retry_after)
        why = refusal::busy;
    std::string detail = fmt::format("{} answered {} to the topic '{}'", shown, said.status, topic);
    if (said.status < 400)
        detail += "; redirects are not followed: give the URL that it redirects to";
    if (!said.words.empty())
        detail += fmt::format(": {}", said.words);
    auto result = publish_answer::no(why, std::move(detail));
    if (!is_permanent(why))
        result.retry_in = said.retry_after;
    return result;
}

exchange exchange_of(int status) noexcept
{
    return status >= 500 ? exchange::failed : exchange::good;
}

std::string words_of(std::string_view body, std::span<const std::string_view> hidden)
{
    body = core::truncated(body, words_bytes_max);
    std::unordered_set<std::uint64_t> windows;
    for (std::size_t i = 0; i + window_bytes <= body.size(); ++i)
        windows.insert(window_at(body, i));
    if (std::ranges::any_of(hidden,
                            [&](std::string_view each) { return repeats(body, windows, each); }))
        return {};
    std::string result;
    for (const char each : body) {
        const auto byte = static_cast<unsigned char>(each);
        const bool is_gap = byte <= 0x20 || byte == 0x7f;
        if (!is_gap)
            result += each;
        else if (!result.empty() && !result.ends_with(' '))
            result += ' ';
    }
    if (!core::is_text(result))
        return {};
    result.resize(result.find_last_not_of(' ') + 1);
    return result;
}

} // namespace posthorn::transports
