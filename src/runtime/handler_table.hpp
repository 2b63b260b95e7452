// Which handler a topic has: exact names first, then wildcards, the longest first, then predicates.
#pragma once

#include <posthorn/handler.hpp>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::runtime {

/// A handler and what it was registered with.
struct route {
    std::string pattern; ///< for people; of a predicate, "a predicate"
    any_handler handler;
    handler_options options;
    std::size_t registration = 0; ///< the same for all patterns that were given a handler together

    [[nodiscard]] bool has_limit() const noexcept
    {
        return options.concurrency > 0 || options.payload_bytes_max > 0;
    }
};

/// Filled first, then read. Threads: reading is safe from any.
class handler_table {
public:
    /// The limits hold for all of the patterns together.
    /// Throws: `error` with `invalid_argument` for a bad pattern, a limit per key without a key, or
    /// a pattern that has a handler already.
    void add(const std::vector<std::string>& patterns, const any_handler& handler,
             const handler_options& how);
    void add_if(std::function<bool(std::string_view)> accepts, any_handler handler,
                const handler_options& how);

    /// For a topic of our own: an exact handler of the user's comes before it, nothing else does.
    void add_built_in(std::string_view topic, any_handler handler);

    /// Null: nobody handles this topic.
    [[nodiscard]] const route* find(std::string_view topic) const;

    /// Which topics have a handler, as far as that can be said: a predicate might accept any.
    struct topics {
        std::vector<std::string> exact;
        std::vector<std::string> prefixes;
    };
    [[nodiscard]] topics handled() const;

    [[nodiscard]] bool empty() const noexcept;

    /// Whether a handler has its own rules for failures.
    [[nodiscard]] bool has_failure_rules() const noexcept { return has_failure_rules_; }

private:
    struct guarded {
        std::function<bool(std::string_view)> accepts;
        route to;
    };

    void add_one(std::string_view pattern, route to);

    std::size_t registrations_ = 0;
    bool has_failure_rules_ = false;

    // Maps and deques keep their elements where they are.
    std::map<std::string, route, std::less<>> exact_;
    std::map<std::string, route, std::less<>> built_in_;
    std::map<std::string, route, std::less<>> by_prefix_;
    std::deque<guarded> by_predicate_;
};

} // namespace posthorn::runtime
