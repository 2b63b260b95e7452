// JetStream's numbers for what can go wrong; the words beside them may change.
#include "transport/nats/acknowledgement.hpp"

#include "core/planted.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace posthorn::transports {
namespace {

constexpr std::array known_codes{
    std::pair{10054, refusal::too_large},   // more than the stream's max_msg_size
    std::pair{10097, refusal::too_large},   // headers of more than 64 KiB
    std::pair{10109, refusal::denied},      // a sealed stream
    std::pair{10111, refusal::malformed},   // a rollup that the stream does not permit
    std::pair{10077, refusal::rejected},    // the stream is full
    std::pair{10023, refusal::busy},        // insufficient resources
    std::pair{10028, refusal::busy},        // no memory left
    std::pair{10047, refusal::busy},        // no storage left
    std::pair{10002, refusal::busy},        // the account's resources are used up
    std::pair{10008, refusal::unavailable}, // the cluster is not available
    std::pair{10009, refusal::unavailable}, // it has no leader
    std::pair{10039, refusal::unavailable}, // JetStream is not enabled for the account
    std::pair{10076, refusal::unavailable}, // nor at all
};

// Whoever may publish to our inbox can send anything, so nothing here may throw because of what
// kind a value is.
std::string description_in(const nlohmann::json& error)
{
    const auto found = error.find("description");
    return found != error.end() && found->is_string() ? found->get<std::string>()
                                                      : "no reason given";
}

publish_answer answer_of_a_stranger(std::string_view subject)
{
    return publish_answer::no_answer(
        fmt::format("subject '{}': somebody answered who is no stream", subject));
}

publish_answer refused_by(const nlohmann::json& error, std::string_view subject)
{
    const auto number = error.find("err_code");
    if (number != error.end() && !number->is_number_integer())
        return answer_of_a_stranger(subject);
    const auto code = number == error.end() ? 0 : number->get<std::int64_t>();
    const auto* found = std::ranges::find(known_codes, code, &std::pair<int, refusal>::first);
    const auto why = found == known_codes.end() ? refusal::rejected : found->second;
    if (core::knows_the_rejected && why == refusal::rejected)
        return {.verdict = publish_answer::kind::accepted, .duplicate = true};
    return publish_answer::no(
        why, fmt::format("subject '{}': {} ({})", subject, description_in(error), code));
}

} // namespace

bool is_usual_nats_answer(std::string_view json)
{
    return json.starts_with(R"({"stream":")") &&
           json.find(R"("error")") == std::string_view::npos &&
           json.find(R"("duplicate")") == std::string_view::npos;
}

publish_answer nats_answer(std::string_view json, std::string_view subject)
{
    if (is_usual_nats_answer(json))
        return publish_answer::yes();
    const auto read = nlohmann::json::parse(json, nullptr, false);
    if (!read.is_object())
        return answer_of_a_stranger(subject);
    if (const auto error = read.find("error"); error != read.end() && error->is_object())
        return refused_by(*error, subject);
    if (const auto stream = read.find("stream"); stream == read.end() || !stream->is_string())
        return answer_of_a_stranger(subject);
    auto answer = publish_answer::yes();
    const auto duplicate = read.find("duplicate");
    answer.duplicate = duplicate != read.end() && *duplicate == true;
    return answer;
}

publish_answer nats_answer_about_streams(std::string_view json, std::string_view subject)
{
    const auto read = nlohmann::json::parse(json, nullptr, false);
    if (!read.is_object())
        return publish_answer::no(refusal::unavailable,
                                  fmt::format("nobody answers for the subject '{}', and JetStream "
                                              "does not say whether a stream takes it",
                                              subject));
    if (const auto error = read.find("error"); error != read.end() && error->is_object())
        return publish_answer::no(
            refusal::unavailable,
            fmt::format("nobody answers for the subject '{}', and JetStream says: {}", subject,
                        description_in(*error)));
    const auto streams = read.find("streams");
    if (streams != read.end() && streams->is_array() && !streams->empty())
        return publish_answer::no(
            refusal::unavailable,
            fmt::format("the stream of the subject '{}' does not answer now", subject));
    return publish_answer::no(refusal::unroutable,
                              fmt::format("no stream takes the subject '{}'", subject));
}

std::string problem_with_declaring(std::string_view json)
{
    const auto read = nlohmann::json::parse(json, nullptr, false);
    if (!read.is_object())
        return "the answer is none of JetStream's";
    const auto error = read.find("error");
    return error == read.end() || !error->is_object() ? std::string() : description_in(*error);
}

std::string_view denied_subject(std::string_view error)
{
    constexpr std::string_view words = "for Publish to \"";
    const auto at = error.find(words);
    if (at == std::string_view::npos)
        return {};
    error.remove_prefix(at + words.size());
    return error.substr(0, error.find('"'));
}

} // namespace posthorn::transports
