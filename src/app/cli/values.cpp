// Reading values: whatever is wrong is quoted, and what would be right is named.
#include "app/cli/values.hpp"

#include "app/cli/text.hpp"
#include "core/job.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

namespace posthorn::cli {

message_id read_id(std::string_view text)
{
    if (const auto id = message_id::parse(text))
        return *id;
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is not a message id", printable(text)));
}

join_id read_join_id(std::string_view text)
{
    if (const auto id = join_id::parse(text))
        return *id;
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is not a join id", printable(text)));
}

join_state read_join_state(std::string_view text)
{
    if (const auto state = parse_join_state(text))
        return *state;
    throw error(
        error_code::invalid_argument,
        fmt::format("'{}' is not a state of joins; those are pending, completed, failed and "
                    "cancelled",
                    printable(text)));
}

inbox_state read_inbox_state(std::string_view text)
{
    if (const auto state = parse_inbox_state(text))
        return *state;
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is not a state of the inbox; those are seen, processing, done "
                            "and dead",
                            printable(text)));
}

key_state read_key_state(std::string_view text)
{
    if (const auto state = parse_key_state(text))
        return *state;
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is not a state of keys; those are in-progress, completed and "
                            "failed",
                            printable(text)));
}

misfire read_misfire(std::string_view text)
{
    if (const auto policy = parse_misfire(text))
        return *policy;
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is unknown; missed runs can skip, fire-once or catch-up",
                            printable(text)));
}

overlap read_overlap(std::string_view text)
{
    if (const auto policy = parse_overlap(text))
        return *policy;
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is unknown; runs beside others can skip, queue or allow",
                            printable(text)));
}

execution_state read_execution_state(std::string_view text)
{
    for (int i = 0; i <= static_cast<int>(execution_state::coalesced); ++i)
        if (to_string(static_cast<execution_state>(i)) == text)
            return static_cast<execution_state>(i);
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is not a state of executions; those are waiting, enqueued, "
                            "running, done, failed, cancelled, skipped and coalesced",
                            printable(text)));
}

timestamp read_time(std::string_view text)
{
    if (const auto when = core::parse_iso(text))
        return *when;
    throw error(
        error_code::invalid_argument,
        fmt::format("'{}' is not a time; one is written 2027-03-28T01:00:00Z", printable(text)));
}

bool read_dash(std::string_view text)
{
    if (text == "-")
        return true;
    throw error(
        error_code::invalid_argument,
        fmt::format("'{}' is unexpected; - reads the payload from standard input, --payload "
                    "gives it",
                    printable(text)));
}

headers read_headers(const std::vector<std::string>& pairs)
{
    headers result;
    for (const auto& pair : pairs) {
        const auto equals = pair.find('=');
        if (equals == std::string::npos)
            throw error(error_code::invalid_argument,
                        fmt::format("'{}': a header is written name=value", printable(pair)));
        if (!result.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
            throw error(error_code::invalid_argument,
                        fmt::format("'{}' is given twice", printable(pair.substr(0, equals))));
    }
    return result;
}

} // namespace posthorn::cli
