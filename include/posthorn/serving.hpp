// How a worker divides itself among many stores, and what it knows about each of them.
#pragma once

#include <posthorn/selection.hpp>
#include <posthorn/time.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace posthorn {

struct serving_options {
    selection_strategy strategy = round_robin{};

    /// Stores that are spoken to at the same time, each by a thread.
    std::size_t visits_at_once = 8;

    /// After this long a store that does not answer counts as hanging: another thread takes the
    /// place of the one that waits for it.
    duration time_budget = std::chrono::seconds{1};

    /// How many threads may wait for hanging stores beside those above.
    std::size_t hanging_max = 32;

    /// Handlers of one store that run at once; half of the worker's concurrency unless given, or
    /// all of it if there is one store.
    std::size_t concurrency_per_store = 0;

    /// A store that rings is looked at all the same, should a ring be lost: so many of them a
    /// second, or each every `worker_options::look_at_least_every` if that is less often. Files,
    /// which must be opened for it, a tenth as often; their times are compared every ten seconds.
    double looks_per_second = 10;

    /// A store that fails is left alone: shortly at first, and longer each time, up to this.
    duration failure_pause_max = std::chrono::seconds{30};
};

/// What a worker does about a store.
enum class store_state {
    idle,    ///< nothing is due
    ready,   ///< something may be due
    busy,    ///< it is visited now, or its messages are being handled
    hanging, ///< it does not answer
    failing, ///< its breaker is open: it is left alone for a while
    leaving, ///< not listed any more; what is in hand is finished
};

[[nodiscard]] std::string_view to_string(store_state state) noexcept;

struct store_status {
    std::string name;
    store_state state = store_state::idle;
    int failures = 0;            ///< in a row
    std::string last_error = {}; ///< empty when it answers
    std::size_t running = 0;
    std::size_t handled = 0;
    duration lag = {}; ///< how long the oldest message of the last claim had been due
};

} // namespace posthorn
