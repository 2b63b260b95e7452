// Where a published message says it comes from. One rule for all publishers: what is given wins;
// else the ambient scope, with its next number; else the message begins a correlation of its own.
#pragma once

#include <posthorn/correlation.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::core {

/// What the caller said of it, apart from headers. Empty means nothing.
struct given_lineage {
    std::optional<message_id> id = {};
    std::string correlation_id = {};
    std::string causation_id = {};
};

struct lineage {
    std::optional<message_id> id; ///< else the store makes one
    std::string correlation_id;
    std::string causation_id;
    std::string sequence;  ///< as it stands in the header; empty: none, or not yet
    bool numbered = false; ///< it gets the scope's next number once nothing else can refuse it
};

/// Numbers of one scope, taken for messages that are about to be published. A number whose message
/// does not come to be goes back, unless a later one was given out: then it stays a gap.
class drawn_numbers {
public:
    explicit drawn_numbers(std::shared_ptr<correlation> of) : of_(std::move(of)) {}

    [[nodiscard]] std::string draw();
    void give_back_last() noexcept;
    void give_back() noexcept;

    [[nodiscard]] bool empty() const noexcept { return numbers_.empty(); }

private:
    std::shared_ptr<correlation> of_; // shared with the scope, which may end before
    std::vector<std::int64_t> numbers_;
};

/// Who decides about the id, unless it is given.
enum class id_maker { store, publisher };

/// Takes what is ours out of the headers, and leaves in them the trace context to send. No number
/// is taken from the scope: what is refused later would use it up.
/// Throws: `error` with `invalid_argument` for what contradicts itself or cannot be read.
[[nodiscard]] lineage resolve_lineage(given_lineage given, headers& values,
                                      const correlation* scope, id_maker by,
                                      const environment& world);

/// Adds the scope's trace, with a span of its own, to headers that name none.
void add_trace(headers& values, const correlation& scope, random_source& random);

/// The headers that a message has on its way to another system: its own and all of ours.
[[nodiscard]] headers wire_headers(const lineage& from, message_id id, headers values);

} // namespace posthorn::core
