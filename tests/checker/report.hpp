// A judgement for people and for programs: sentences and a summary line, or one JSON object.
#pragma once

#include "checker/rules.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace posthorn::checker {

/// How much was looked at.
struct tally {
    std::size_t messages = 0;
    std::size_t starts = 0;
    std::size_t faults = 0; ///< faults told, and answers that never came
    std::size_t torn_lines = 0;
    std::size_t arrivals = 0; ///< messages from outside
    std::size_t effects = 0;  ///< of those, that were found
};

struct judgement {
    tally looked_at;
    std::vector<verdict> verdicts;

    [[nodiscard]] std::size_t checks() const;
    [[nodiscard]] std::vector<violation> violations() const;
};

[[nodiscard]] judgement judge(const history& told, const final_state& found, const bounds& allowed);

/// One line per violation, then the checks per promise, then the summary.
[[nodiscard]] std::string to_text(const judgement& what);
[[nodiscard]] std::string to_json_text(const judgement& what);

} // namespace posthorn::checker
