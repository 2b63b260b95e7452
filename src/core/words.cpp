// The spoken forms of answers and states.
#include <posthorn/delivery.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_state.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace posthorn {

std::string_view to_string(cancel_answer answer) noexcept
{
    switch (answer) {
    case cancel_answer::cancelled: return "cancelled";
    case cancel_answer::too_late: return "too_late";
    case cancel_answer::pending: return "pending";
    case cancel_answer::not_found: return "not_found";
    }
    return "unknown";
}

std::string_view to_string(settled_as answer) noexcept
{
    switch (answer) {
    case settled_as::lost: return "lost";
    case settled_as::done: return "done";
    case settled_as::retrying: return "retrying";
    case settled_as::dead: return "dead";
    case settled_as::released: return "released";
    case settled_as::parked: return "parked";
    }
    return "unknown";
}

std::string_view to_string(park_reason reason) noexcept
{
    switch (reason) {
    case park_reason::no_handler: return "no_handler";
    case park_reason::paused: return "paused";
    case park_reason::at_limit: return "at_limit";
    }
    return "unknown";
}

std::string_view to_string(start_answer answer) noexcept
{
    switch (answer) {
    case start_answer::started: return "started";
    case start_answer::gone: return "gone";
    case start_answer::lost: return "lost";
    }
    return "unknown";
}

namespace {

constexpr std::array state_names{
    std::pair{message_state::ready, std::string_view{"ready"}},
    std::pair{message_state::waiting, std::string_view{"waiting"}},
    std::pair{message_state::parked, std::string_view{"parked"}},
    std::pair{message_state::claimed, std::string_view{"claimed"}},
    std::pair{message_state::done, std::string_view{"done"}},
    std::pair{message_state::dead, std::string_view{"dead"}},
    std::pair{message_state::cancelled, std::string_view{"cancelled"}},
    std::pair{message_state::expired, std::string_view{"expired"}},
};

} // namespace

std::string_view to_string(message_state state) noexcept
{
    const auto* found =
        std::ranges::find(state_names, state, &decltype(state_names)::value_type::first);
    return found == state_names.end() ? "unknown" : found->second;
}

std::string_view to_string(ready_state state) noexcept
{
    switch (state) {
    case ready_state::ready: return "ready";
    case ready_state::delayed: return "delayed";
    case ready_state::retrying: return "retrying";
    }
    return "unknown";
}

std::optional<message_state> parse_message_state(std::string_view text) noexcept
{
    const auto* found =
        std::ranges::find(state_names, text, &decltype(state_names)::value_type::second);
    return found == state_names.end() ? std::nullopt : std::optional{found->first};
}

std::vector<receipt> batch::receipts() const
{
    std::vector<receipt> result;
    result.reserve(deliveries.size());
    for (const auto& each : deliveries)
        result.push_back(each.receipt);
    return result;
}

outcome done()
{
    return {};
}

outcome retry(std::string error)
{
    return {.verdict = outcome::kind::retry, .error = std::move(error)};
}

outcome retry_in(duration delay, std::string error)
{
    return {.verdict = outcome::kind::retry, .delay = delay, .error = std::move(error)};
}

outcome fail(std::string reason)
{
    return {.verdict = outcome::kind::fail, .error = std::move(reason)};
}

outcome postpone(duration delay)
{
    return {.verdict = outcome::kind::postpone, .delay = delay};
}

outcome park(park_reason why)
{
    return {.verdict = outcome::kind::park, .reason = why};
}

std::size_t settle_result::lost() const noexcept
{
    return static_cast<std::size_t>(std::ranges::count(answers, settled_as::lost));
}

std::size_t settle_result::settled() const noexcept
{
    return answers.size() - lost();
}

owner owner::create(std::string worker, random_source& random)
{
    uuid token;
    random.fill(token.bytes);
    return {.token = to_string(token), .worker = std::move(worker)};
}

} // namespace posthorn
