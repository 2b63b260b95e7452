// Remembers what a worker's handlers were given and what they said.
#pragma once

#include <posthorn/testing/verdict.hpp>
#include <posthorn/worker.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::testing {

/// One call of a handler.
struct handled_message {
    posthorn::receipt receipt;
    std::string topic;
    std::string payload;
    int attempt = 1;
    outcome said = {};
    std::optional<settled_as> became = {}; ///< nothing until it is settled
};

/// Copies share what they remember. Threads: safe to use from any.
class recorder {
public:
    recorder();

    /// These options, with hooks that tell this recorder. Hooks that are there already are called
    /// as before.
    [[nodiscard]] worker_options watching(worker_options options = {}) const;

    /// All calls, or those of one topic, in the order in which they ended.
    [[nodiscard]] std::vector<handled_message> handled(std::string_view topic = {}) const;

    /// What was claimed and given back without a call: parked or over a limit.
    [[nodiscard]] std::vector<handled_message> turned_away() const;

    /// Handlers of the topic were called with exactly these payloads, in this order. A message that
    /// was tried again counts once for each try.
    verdict was_handled(std::string_view topic, const std::vector<std::string>& payloads) const;

    void forget();

private:
    struct memory;
    std::shared_ptr<memory> memory_; // shared with the hooks, which outlive a worker's handlers
};

} // namespace posthorn::testing
