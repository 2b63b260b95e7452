// What JetStream says about a message that was published.
#pragma once

#include <posthorn/transport.hpp>

#include <string_view>

namespace posthorn::transports {

/// Whether it is what a stream says almost always: it has stored the message, and for the first
/// time.
[[nodiscard]] bool is_usual_nats_answer(std::string_view json);

/// What an answer to a publish means.
[[nodiscard]] publish_answer nats_answer(std::string_view json, std::string_view subject);

/// What it means that nobody answers for a subject, by the answer to the question which streams
/// take it: a stream without a leader is there, and will answer another time.
[[nodiscard]] publish_answer nats_answer_about_streams(std::string_view json,
                                                       std::string_view subject);

/// The subject in "Permissions Violation for Publish to "…""; empty: it speaks of something else.
[[nodiscard]] std::string_view denied_subject(std::string_view error);

} // namespace posthorn::transports
