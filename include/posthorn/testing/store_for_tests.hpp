// A store for tests: in memory, with a clock that a test moves and chance that repeats itself.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::testing {

/// How a store is opened; `posthorn::open` is one of these.
using opener = std::function<store(std::string_view url, const store_options& options)>;

struct test_store_options {
    std::uint64_t seed = 1; ///< of ids and jitter
    posthorn::limits limits = {};

    /// Another store than one in memory, whose tables exist: a server takes the test's clock for
    /// its own. Both are given, or none.
    std::string url = {};
    opener open = {};
};

/// A store like any other: hand it to workers and to the code that is tested. Each is its own and
/// is gone with its last copy. Threads: safe to use from any.
class store_for_tests : public store {
public:
    explicit store_for_tests(const test_store_options& options = {});

    [[nodiscard]] manual_clock& clock() const noexcept { return *clock_; }

    /// The warnings and errors that were logged so far.
    [[nodiscard]] std::vector<std::string> log() const;

private:
    struct parts;
    store_for_tests(parts with, const test_store_options& options);

    // Shared with the environment of every copy of the store.
    std::shared_ptr<manual_clock> clock_;
    struct log_lines;
    std::shared_ptr<log_lines> lines_;
};

} // namespace posthorn::testing
