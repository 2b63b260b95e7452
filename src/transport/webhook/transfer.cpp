// What curl is told, and what its words mean. Whatever may have reached the other side is unknown.
#include "transport/webhook/transfer.hpp"

#include "transport/webhook/answers.hpp"
#include "transport/webhook/signature.hpp"
#include <posthorn/webhook_signature.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sys/socket.h>
#include <utility>

namespace posthorn::transports {
namespace {

constexpr std::size_t body_bytes_kept = 512;
constexpr std::size_t body_bytes_max = std::size_t{64} << 10U; // read, so that the line stays open

long whole_milliseconds(duration length)
{
    const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(length).count();
    return static_cast<long>(std::max<std::int64_t>(rounded, 1));
}

template <typename... Value>
bool set(CURL* of, CURLoption which, Value... value)
{
    return curl_easy_setopt(of, which, value...) == CURLE_OK;
}

} // namespace

transfer::transfer(const transfer_setting& with, webhook_batch& of, std::size_t index,
                   easy_handle easy)
    : setting_(&with),
      batch_(&of),
      index_(index),
      target_(of.asks_for ? of.asks_for : of.entries[index].target),
      easy_(std::move(easy))
{}

easy_handle transfer::give_back()
{
    curl_easy_reset(easy_.get());
    return std::move(easy_);
}

// The last word on where a message goes: curl connects to this very address.
curl_socket_t transfer::open_socket(void* self, curlsocktype /*purpose*/, curl_sockaddr* where)
{
    auto& of = *static_cast<transfer*>(self);
    const auto address = address_of(where->addr);
    if (!address || !of.setting_->guard.allows(*address)) {
        of.refused_ = address.value_or(ip_address{});
        return CURL_SOCKET_BAD;
    }
    of.tried_ = true;
    return ::socket(where->family, where->socktype | SOCK_CLOEXEC, where->protocol);
}

std::size_t transfer::take_body(char* bytes, std::size_t size, std::size_t count, void* self)
{
    auto& of = *static_cast<transfer*>(self);
    const auto got = size * count;
    of.body_.append(bytes, std::min(got, body_bytes_kept - of.body_.size()));
    of.body_bytes_ += got;
    return of.body_bytes_ > body_bytes_max ? 0 : got; // we know the status, and have read enough
}

bool transfer::add(std::string_view name, std::string_view value)
{
    // A line that ends with a colon would take the header away.
    const auto line = value.empty() ? fmt::format("{};", name) : fmt::format("{}: {}", name, value);
    auto* longer = curl_slist_append(lines_.get(), line.c_str());
    if (longer == nullptr)
        return false;
    (void)lines_.release();
    lines_.reset(longer);
    return true;
}

bool transfer::pin_names()
{
    if (!setting_->lookup || address_in(target_->host))
        return true;
    std::string line = fmt::format("+{}:{}:", target_->host, target_->port);
    bool first = true;
    for (const auto& each : setting_->lookup(target_->host)) {
        line += (first ? "" : ",") + each;
        first = false;
    }
    if (first)
        return false;
    pinned_.reset(curl_slist_append(nullptr, line.c_str()));
    return pinned_ && set(handle(), CURLOPT_RESOLVE, pinned_.get());
}

bool transfer::prepare(std::int64_t unix_seconds)
{
    const auto& how = setting_->options;
    auto* easy = handle();
    bool good = pin_names();
    good = good && set(easy, CURLOPT_URL, target_->url.c_str());
    good = good && set(easy, CURLOPT_PATH_AS_IS, 1L); // else curl resolves dots in it
    good = good && set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    good = good && set(easy, CURLOPT_FOLLOWLOCATION, 0L);
    good = good && set(easy, CURLOPT_PROXY, ""); // whatever the environment says
    good = good && set(easy, CURLOPT_NOPROXY, "*");
    good = good && set(easy, CURLOPT_OPENSOCKETFUNCTION, &transfer::open_socket);
    good = good && set(easy, CURLOPT_OPENSOCKETDATA, this);
    good = good && set(easy, CURLOPT_WRITEFUNCTION, &transfer::take_body);
    good = good && set(easy, CURLOPT_WRITEDATA, this);
    good = good && set(easy, CURLOPT_PRIVATE, this);
    good = good && set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    good = good && set(easy, CURLOPT_NOSIGNAL, 1L);
    good = good && set(easy, CURLOPT_QUICK_EXIT, 1L); // never wait for a look-up that is given up
    good = good && set(easy, CURLOPT_CONNECTTIMEOUT_MS, whole_milliseconds(how.connect_within));
    good = good && set(easy, CURLOPT_TIMEOUT_MS, whole_milliseconds(how.answer_within));
    good = good && set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!how.ca_file.empty())
        good = good && set(easy, CURLOPT_CAINFO, how.ca_file.c_str());
    if (!how.certificate_file.empty())
        good = good && set(easy, CURLOPT_SSLCERT, how.certificate_file.c_str());
    if (!how.key_file.empty())
        good = good && set(easy, CURLOPT_SSLKEY, how.key_file.c_str());
    if (batch_->asks_for)
        return good && set(easy, CURLOPT_CONNECT_ONLY, 1L);
    return good && set_message(unix_seconds);
}

bool transfer::set_message(std::int64_t unix_seconds)
{
    const auto& how = setting_->options;
    const auto& what = batch_->messages[index_];
    const auto id = to_string(what.id);
    const auto sent_at = std::to_string(unix_seconds);
    const bool with_headers = target_->endpoint == setting_->usual_endpoint;
    const auto is_ours = [&](std::string_view lower) {
        return with_headers && std::ranges::any_of(how.headers, [&](const auto& each) {
                   return lower_case(each.first) == lower;
               });
    };
    bool has_type = false;
    bool good = true;
    for (const auto& [name, value] : batch_->entries[index_].lines) {
        const auto lower = lower_case(name);
        has_type |= lower == "content-type";
        if (!is_ours(lower))
            good = good && add(name, value);
    }
    if (with_headers)
        for (const auto& [name, value] : how.headers)
            good = good && add(name, value);
    if (!has_type && !is_ours("content-type"))
        good = good && add("Content-Type", how.content_type);
    good = good && add(webhook_id_header, id) && add(webhook_timestamp_header, sent_at);
    if (!setting_->keys.empty())
        good = good && add(webhook_signature_header,
                           signature_of(id, sent_at, what.payload, setting_->keys));
    auto* longer = good ? curl_slist_append(lines_.get(), "Expect:") : nullptr; // never ask first
    if (longer == nullptr)
        return false;
    auto* easy = handle();
    return set(easy, CURLOPT_USERAGENT, how.user_agent.c_str()) && set(easy, CURLOPT_POST, 1L) &&
           set(easy, CURLOPT_HTTPHEADER, lines_.get()) &&
           set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(what.payload.size())) &&
           set(easy, CURLOPT_POSTFIELDS, what.payload.data());
}

long transfer::status() const
{
    long result = 0;
    curl_easy_getinfo(handle(), CURLINFO_RESPONSE_CODE, &result);
    return result;
}

bool transfer::was_sent() const
{
    long bytes = 0;
    curl_easy_getinfo(handle(), CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

transfer::end transfer::answered(long status) const
{
    const auto& what = batch_->messages[index_];
    curl_off_t seconds = 0;
    curl_easy_getinfo(handle(), CURLINFO_RETRY_AFTER, &seconds);
    http_answer said{.status = static_cast<int>(status)};
    if (seconds > 0 && (status == 429 || status == 503))
        said.retry_after =
            std::min<duration>(std::chrono::seconds{std::min<curl_off_t>(seconds, 1'000'000'000)},
                               setting_->options.retry_after_max);
    std::vector<std::string_view> hidden{what.payload, target_->hidden};
    for (const auto& [name, value] : setting_->options.headers)
        hidden.emplace_back(value);
    for (const auto& [name, value] : batch_->entries[index_].lines)
        if (lower_case(name) == "authorization")
            hidden.emplace_back(value);
    const auto words = words_of(body_, hidden);
    said.words = words;
    return {.answer = answer_of(said, target_->shown, what.topic),
            .how = exchange_of(said.status),
            .retry_after = said.retry_after};
}

transfer::end transfer::ended(CURLcode result) const
{
    if (batch_->asks_for)
        return result == CURLE_OK ? end{.answer = publish_answer::yes(), .how = exchange::good}
                                  : failed(result);
    // With the status known, a body that is too long or was cut off does not matter.
    const auto said = status();
    return said >= 200 ? answered(said) : failed(result);
}

transfer::end transfer::failed(CURLcode result) const
{
    if (refused_ && !tried_)
        return {.answer = publish_answer::no(
                    refusal::denied,
                    fmt::format("{}: its address {} is not public, and is not among those that are "
                                "allowed",
                                target_->shown, to_string(*refused_))),
                .how = exchange::cut};
    auto words = fmt::format("{}: {}", target_->shown, curl_easy_strerror(result));
    return {.answer = was_sent() ? publish_answer::no_answer(std::move(words))
                                 : publish_answer::no(refusal::unavailable, std::move(words)),
            .how = exchange::failed};
}

transfer::end transfer::cut(std::string_view reason) const
{
    if (const auto said = status(); said >= 200)
        return answered(said);
    auto words = fmt::format("{}: {}", target_->shown, reason);
    if (was_sent()) // it had its chance
        return {.answer = publish_answer::no_answer(std::move(words)), .how = exchange::failed};
    return {.answer = publish_answer::no(refusal::busy, std::move(words))};
}

} // namespace posthorn::transports
