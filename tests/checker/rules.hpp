// The promises as pure functions: each reads the dossier and says where its promise was broken.
#pragma once

#include "checker/dossier.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::checker {

struct violation {
    std::string promise; ///< such as I4
    message_id message;
    std::string sentence;
};

/// What one rule found.
class verdict {
public:
    explicit verdict(std::string_view promise) : promise_(promise) {}

    /// Counts a check; if it does not hold, the sentence "message … <text>" says what is wrong.
    template <typename... Values>
    void expect(bool holds, const message_story& story, fmt::format_string<Values...> text,
                Values&&... values)
    {
        ++checks_;
        if (!holds)
            violations_.push_back(
                {promise_, story.id,
                 fmt::format("{}: message {} {}", promise_, to_string(story.id),
                             fmt::format(text, std::forward<Values>(values)...))});
    }

    /// The same about a message from outside, which need not be in the tables.
    template <typename... Values>
    void expect(bool holds, const arrival_story& story, fmt::format_string<Values...> text,
                Values&&... values)
    {
        ++checks_;
        if (!holds)
            violations_.push_back(
                {promise_, story.messages.empty() ? message_id{} : story.messages.front(),
                 fmt::format("{}: what '{}' calls '{}' {}", promise_, story.from.source,
                             story.from.id, fmt::format(text, std::forward<Values>(values)...))});
    }

    /// Counts something that cannot be judged from what is known.
    void leave_open() { ++open_; }

    [[nodiscard]] const std::string& promise() const { return promise_; }
    [[nodiscard]] std::size_t checks() const { return checks_; }
    [[nodiscard]] std::size_t open() const { return open_; }
    [[nodiscard]] const std::vector<violation>& violations() const { return violations_; }

private:
    std::string promise_;
    std::size_t checks_ = 0;
    std::size_t open_ = 0;
    std::vector<violation> violations_;
};

/// I1: a message exists exactly when its transaction committed.
[[nodiscard]] verdict check_existence(const dossier& all);
/// I2: no committed message vanishes, and what waits has something to wait for.
[[nodiscard]] verdict check_loss(const dossier& all);
/// I3: an end is final, until somebody redrives.
[[nodiscard]] verdict check_finality(const dossier& all);
/// I4: fences grow, and what was settled under an old one was answered `lost`.
[[nodiscard]] verdict check_fences(const dossier& all);
/// I5: starts never exceed the attempts allowed, and the store counts them right.
[[nodiscard]] verdict check_attempts(const dossier& all);
/// I6: each further start has a reason: a retry, a redrive, or a fault.
[[nodiscard]] verdict check_repeats(const dossier& all);
/// I7: what comes from outside has one effect, however often it comes.
[[nodiscard]] verdict check_effects(const dossier& all);
/// I8: within a key nothing starts before what was committed earlier has ended.
[[nodiscard]] verdict check_order(const dossier& all);
/// I17: nothing starts before it is due or after it has expired.
[[nodiscard]] verdict check_times(const dossier& all);
/// I18: nothing starts after its cancel was acknowledged.
[[nodiscard]] verdict check_cancels(const dossier& all);
/// I20: after the faults everything that may not wait ends in time.
[[nodiscard]] verdict check_settling(const dossier& all);

/// All of them, in this order.
[[nodiscard]] std::vector<verdict> check_all(const dossier& all);

} // namespace posthorn::checker
