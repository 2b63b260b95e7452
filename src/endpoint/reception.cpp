// Verify, open, store, answer: in this order. Whoever has no secret learns nothing.
#include "endpoint/reception.hpp"

#include "core/trace_context.hpp"
#include "feeds/stored_as.hpp"
#include "transport/envelope.hpp"
#include "transport/webhook/http_headers.hpp"
#include "transport/webhook/signature.hpp"
#include <posthorn/error.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/webhook_signature.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace posthorn::endpoint {
namespace {

[[noreturn]] void refuse_options(const std::string& why)
{
    throw error(error_code::invalid_argument, "inbox endpoint: " + why);
}

void check_path(const inbox_path& given)
{
    constexpr std::size_t path_bytes_max = 1'000;
    const bool plain = std::ranges::all_of(given.path, [](char each) {
        return each > ' ' && each <= '~' && each != '?' && each != '#';
    });
    if (!given.path.starts_with('/') || !plain || given.path.size() > path_bytes_max)
        refuse_options(fmt::format("'{}' is no path; one begins with a slash, as /hooks/shop",
                                   plain ? given.path : "(unprintable)"));
    if (given.source.empty())
        refuse_options(fmt::format("the path {} needs a source: the inbox's name for whoever "
                                   "posts there",
                                   given.path));
    if (given.secrets.empty() != given.unsigned_allowed)
        refuse_options(given.secrets.empty()
                           ? fmt::format("the path {} needs a secret; or say unsigned_allowed, and "
                                         "believe whoever reaches the port",
                                         given.path)
                           : fmt::format("the path {} has secrets, and unsigned_allowed as well: "
                                         "one of them is meant",
                                         given.path));
    (void)transports::secret_bytes(given.secrets); // throws if one is none
    if (given.topic_wins && given.topic.empty())
        refuse_options(fmt::format("at the path {}, topic_wins needs a topic", given.path));
}

void check(const inbox_endpoint_options& given)
{
    if (given.paths.empty())
        refuse_options("it needs a path, or nobody can post");
    std::set<std::string_view> known;
    for (const auto& each : given.paths) {
        check_path(each);
        if (!known.insert(each.path).second)
            refuse_options(fmt::format("the path {} is given twice", each.path));
    }
    if (given.body_bytes_max == 0 || given.connections_max == 0 || given.connections_max > 1'000)
        refuse_options("body_bytes_max must be at least 1, connections_max from 1 to 1000");
    for (const auto length : {given.request_within, given.tolerance, given.retry_after})
        if (length <= duration::zero() || length > limits::span_max)
            refuse_options("request_within, tolerance and retry_after must be longer than nothing");
}

response accepted(int status, std::string_view result)
{
    return {.status = status, .body = fmt::format("{{\"result\":\"{}\"}}\n", result)};
}

// What the sender could do about it. No waiting will help.
bool is_about_the_message(const error& why)
{
    return why.code() == error_code::invalid_argument || why.code() == error_code::not_found;
}

} // namespace

// All of the words are ours, and need no escapes.
response refusal_of(int status, std::string_view error, std::string_view advice)
{
    return {.status = status,
            .body = fmt::format("{{\"error\":\"{}\",\"advice\":\"{}\"}}\n", error, advice)};
}

reception::reception(inbox_endpoint::router where, inbox_endpoint_options options,
                     environment world)
    : where_(std::move(where)), options_(std::move(options)), world_(std::move(world))
{
    if (!where_)
        refuse_options("it needs a store, or a function that finds one");
    check(options_);
}

const inbox_path* reception::find(std::string_view path) const
{
    const auto found = std::ranges::find(options_.paths, path, &inbox_path::path);
    return found == options_.paths.end() ? nullptr : &*found;
}

feed_report reception::report() const
{
    const std::lock_guard lock(mutex_);
    return report_;
}

void reception::note(const inbox_path& at, const feed_report& done)
{
    {
        const std::lock_guard lock(mutex_);
        report_ += done;
    }
    if (options_.progress)
        options_.progress(done, at.source);
}

void reception::warn(const std::string& line) const
{
    if (world_.log)
        world_.log(log_level::warning, line);
}

std::optional<response> reception::distrusted(const inbox_path& at, const headers& received,
                                              std::string_view body) const
{
    if (at.unsigned_allowed)
        return std::nullopt;
    const signed_webhook what{.id = core::find_header(received, webhook_id_header),
                              .timestamp = core::find_header(received, webhook_timestamp_header),
                              .signature = core::find_header(received, webhook_signature_header),
                              .body = body};
    if (what.id.empty())
        return refusal_of(400, "the header webhook-id is missing",
                          "send the id of the message, the same each time it is sent");
    switch (verify_webhook(what, at.secrets, world_.clock->now(), options_.tolerance)) {
    case webhook_verdict::genuine: return std::nullopt;
    case webhook_verdict::malformed:
        return refusal_of(400, "webhook-id or webhook-timestamp is not what it should be",
                          "an id has no full stop and no blanks, a timestamp is in seconds");
    case webhook_verdict::too_old:
        return refusal_of(401, "the signature is too old",
                          "sign again for each attempt, and look at the clock");
    case webhook_verdict::too_new:
        return refusal_of(401, "the signature is from the future", "look at the clock");
    case webhook_verdict::incomplete:
    case webhook_verdict::forged: break;
    }
    return refusal_of(401, "the signature is missing or not good",
                      "sign id.timestamp.body with the secret that was agreed upon");
}

response reception::receive(const inbox_path& at, const headers& received, std::string body)
{
    if (auto instead = distrusted(at, received, body)) {
        // Whoever reaches the port can make us say this, so it is no warning.
        if (world_.log)
            world_.log(log_level::debug, fmt::format("a request to {} was refused with {}", at.path,
                                                     instead->status));
        note(at, {.refused = 1});
        return *std::move(instead);
    }
    // Of all that names the message, this alone is signed. The HTTP library has taken the
    // percent-encoding back already.
    const std::string signed_id(core::find_header(received, webhook_id_header));
    auto what =
        transports::opened(transports::from_http(received, transports::received_values::decoded),
                           std::move(body), {}, transports::http_attributes);
    if (!signed_id.empty())
        what.id = signed_id;
    if (at.topic_wins || what.topic.empty())
        what.topic = at.topic;
    if (what.id.empty() || what.topic.empty()) {
        note(at, {.refused = 1});
        return what.id.empty()
                   ? refusal_of(400, "the message has no id",
                                "send webhook-id or ce-id, the same each time it is sent")
                   : refusal_of(422, "the message has no topic", "send posthorn-topic or ce-type");
    }
    return store_it(at, std::move(what));
}

response reception::store_it(const inbox_path& at, fed_message what)
{
    try {
        auto where = where_(what, at.source);
        const auto how = stored_as(what, world_);
        const auto receipt = enqueue_inbound(where, {.source = at.source, .id = what.id},
                                             {std::move(what.topic), std::move(what.payload)}, how);
        const bool is_new = receipt.answer == inbox_answer::added;
        note(at, is_new ? feed_report{.stored = 1} : feed_report{.repeated = 1});
        return is_new ? accepted(202, "stored") : accepted(200, "known");
    } catch (const error& why) {
        warn(fmt::format("a message from {} cannot be stored: {}", at.source, why.what()));
        if (is_about_the_message(why)) {
            note(at, {.refused = 1});
            return refusal_of(422, "the message cannot be stored",
                              "an id has up to 255 bytes, a topic up to 494, all of it in UTF-8");
        }
    } catch (const std::exception& why) {
        warn(fmt::format("a message from {} cannot be stored: {}", at.source, why.what()));
    }
    // If it is in doubt whether it is stored: what comes again is known.
    note(at, {.failures = 1});
    auto result = refusal_of(503, "the message cannot be stored now", "send it again");
    result.try_again = true;
    return result;
}

} // namespace posthorn::endpoint
