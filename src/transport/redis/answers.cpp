// The first word of an error is its kind.
#include "transport/redis/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn::transports {
namespace {

struct known_error {
    std::string_view word;
    refusal why;
    bool of_server = false; ///< and not of this message
};

// A password that is wrong now may be right later, so it is no message's fault: only a stream that
// we may not write to is.
constexpr std::array known_errors{
    known_error{"OOM", refusal::busy},
    known_error{"BUSY", refusal::busy},
    known_error{"NOPERM", refusal::denied},
    known_error{"WRONGTYPE", refusal::denied},
    known_error{"NOREPLICAS", refusal::unavailable},
    known_error{"MISCONF", refusal::unavailable},
    known_error{"TRYAGAIN", refusal::unavailable},
    known_error{"READONLY", refusal::unavailable, true},
    known_error{"LOADING", refusal::unavailable, true},
    known_error{"MASTERDOWN", refusal::unavailable, true},
    known_error{"CLUSTERDOWN", refusal::unavailable, true},
    known_error{"MOVED", refusal::unavailable, true},
    known_error{"ASK", refusal::unavailable, true},
    known_error{"NOAUTH", refusal::unavailable, true},
    known_error{"WRONGPASS", refusal::unavailable, true},
};

const known_error* find_error(std::string_view error)
{
    const auto word = error.substr(0, error.find(' '));
    const auto* found = std::ranges::find(known_errors, word, &known_error::word);
    return found == known_errors.end() ? nullptr : found;
}

} // namespace

publish_answer redis_refusal(std::string_view error, std::string_view stream)
{
    const auto* known = find_error(error);
    return publish_answer::no(known == nullptr ? refusal::rejected : known->why,
                              fmt::format("stream '{}': {}", stream, error));
}

bool speaks_of_server(std::string_view error)
{
    const auto* known = find_error(error);
    return known != nullptr && known->of_server;
}

} // namespace posthorn::transports
