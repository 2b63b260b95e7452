// What JetStream says about a message that was published.
#pragma once

#include <posthorn/transport.hpp>

#include <string>
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

/// Why a stream was not made, by the answer to the request; empty: it is there as it was wanted.
[[nodiscard]] std::string problem_with_declaring(std::string_view json);

/// The subject in "Permissions Violation for Publish to "…""; empty: it speaks of something else.
[[nodiscard]] std::string_view denied_subject(std::string_view error);

} // namespace posthorn::transports
