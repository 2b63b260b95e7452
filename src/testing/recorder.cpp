// Hooks that write down what they hear.
#include <posthorn/testing/recorder.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace posthorn::testing {

struct recorder::memory {
    std::mutex mutex;
    std::vector<handled_message> handled;
    std::vector<handled_message> turned_away;
};

namespace {

handled_message seen(const delivery& which)
{
    return {.receipt = which.receipt,
            .topic = which.topic,
            .payload = which.payload,
            .attempt = which.attempt};
}

} // namespace

recorder::recorder() : memory_(std::make_shared<memory>()) {}

worker_options recorder::watching(worker_options options) const
{
    options.on.ended = [to = memory_, before = std::move(options.on.ended)](
                           const delivery_view& which, const outcome& said, duration took) {
        {
            auto entry = seen(which.message());
            entry.said = said;
            const std::lock_guard lock(to->mutex);
            to->handled.push_back(std::move(entry));
        }
        if (before)
            before(which, said, took);
    };
    options.on.settled = [to = memory_, before = std::move(options.on.settled)](
                             const delivery_view& which, settled_as answer) {
        {
            const std::lock_guard lock(to->mutex);
            // The receipt names one claim of one message: an earlier try has another one.
            const auto at =
                std::ranges::find(to->handled, which.message().receipt, &handled_message::receipt);
            if (at != to->handled.end()) {
                at->became = answer;
            } else {
                to->turned_away.push_back(seen(which.message()));
                to->turned_away.back().became = answer;
            }
        }
        if (before)
            before(which, answer);
    };
    return options;
}

std::vector<handled_message> recorder::handled(std::string_view topic) const
{
    const std::lock_guard lock(memory_->mutex);
    auto all = memory_->handled;
    if (!topic.empty())
        std::erase_if(all, [&](const auto& each) { return each.topic != topic; });
    return all;
}

std::vector<handled_message> recorder::turned_away() const
{
    const std::lock_guard lock(memory_->mutex);
    return memory_->turned_away;
}

verdict recorder::was_handled(std::string_view topic,
                              const std::vector<std::string>& payloads) const
{
    std::vector<std::string> found;
    for (const auto& each : handled(topic))
        found.push_back(each.payload);
    if (found == payloads)
        return verdict::yes();
    return verdict::no(fmt::format("topic '{}': expected calls with {}, found calls with {}", topic,
                                   payloads, found));
}

void recorder::forget()
{
    const std::lock_guard lock(memory_->mutex);
    memory_->handled.clear();
    memory_->turned_away.clear();
}

} // namespace posthorn::testing
