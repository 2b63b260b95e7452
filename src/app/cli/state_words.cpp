// A ready message is shown by why no worker has claimed it yet; all other states have one word.
#include "app/cli/state_words.hpp"

#include "app/cli/text.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::cli {

std::string_view word_of(const message_record& what) noexcept
{
    return what.state == message_state::ready ? to_string(what.ready_as) : to_string(what.state);
}

bool wanted_state::includes(const message_record& what) const noexcept
{
    return state == what.state && (!ready_as || *ready_as == what.ready_as);
}

void wanted_state::narrow(message_filter& filter) const
{
    filter.state = state;
    filter.ready_as = ready_as;
}

wanted_state read_state(std::string_view text)
{
    for (const auto each : {ready_state::ready, ready_state::delayed, ready_state::retrying})
        if (text == to_string(each))
            return {.state = message_state::ready, .ready_as = each};
    if (const auto state = parse_message_state(text))
        return {.state = *state};
    throw error(error_code::invalid_argument,
                fmt::format("'{}' is not a state; those are ready, delayed, retrying, waiting, "
                            "parked, claimed, done, dead, cancelled and expired",
                            printable(text)));
}

std::int64_t delayed_only(const store_stats& stats) noexcept
{
    return std::max<std::int64_t>(0, stats.delayed - stats.retrying);
}

} // namespace posthorn::cli
