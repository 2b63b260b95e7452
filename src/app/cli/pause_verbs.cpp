// The verbs `pause` and `resume`: rows that workers read and act on.
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/pauses.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

void tell(const pause_request& what, bool paused, bool changed, output& to)
{
    const auto subject =
        what.topic.empty() ? std::string("everything") : fmt::format("'{}'", printable(what.topic));
    const auto text = fmt::format("{}{} {}", subject, changed ? " is" : " was",
                                  paused ? (changed ? "paused" : "paused already")
                                         : (changed ? "resumed" : "not paused"));
    to.answer({{"topic", what.topic.empty() ? ordered_json() : ordered_json(what.topic)},
               {"paused", paused},
               {"changed", changed}},
              text);
}

} // namespace

exit_status pause(const pause_request& what, output& to)
{
    auto where = open(what.url);
    tell(what, true, posthorn::pause(where, what.topic), to);
    return exit_status::success;
}

exit_status resume(const pause_request& what, output& to)
{
    auto where = open(what.url);
    tell(what, false, posthorn::resume(where, what.topic), to);
    return exit_status::success;
}

} // namespace posthorn::cli
