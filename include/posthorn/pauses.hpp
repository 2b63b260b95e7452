// Pausing: an operator keeps topics, or a whole store, from being handled for a while.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// What is paused, and since when.
struct pause_record {
    std::string
        topic; ///< exact, or with a closing `*` everything that starts so; empty: everything
    timestamp since;
};

/// Keeps workers from starting messages of a topic. What runs already runs on; workers notice
/// within about a second. Enqueueing goes on. False: it was paused already.
/// Throws: `error` with `invalid_argument` for a topic that no message could have.
bool pause(store& where, std::string_view topic = {});

/// Lets workers go on. The topic is the one that was given to `pause`. False: it was not paused.
bool resume(store& where, std::string_view topic = {});

[[nodiscard]] std::vector<pause_record> list_pauses(store& where);

/// Whether one of these pauses concerns messages of this topic.
[[nodiscard]] bool is_paused(const std::vector<pause_record>& pauses, std::string_view topic);

} // namespace posthorn
