// The messages of one call, from the thread that calls to the one that sends and back.
#pragma once

#include "transport/webhook/http_headers.hpp"
#include "transport/webhook/target.hpp"
#include <posthorn/transport.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace posthorn::transports {

struct webhook_batch {
    struct entry {
        std::shared_ptr<const webhook_target> target;
        std::vector<std::pair<std::string, std::string>> lines; ///< headers
        bool answered = false;
    };

    std::span<const transport_message> messages;
    std::vector<entry> entries;
    std::vector<publish_answer> answers;
    std::map<std::string_view, std::deque<std::size_t>> keys; ///< what is not sent of each, in turn
    std::optional<monotonic_time> until;
    std::size_t open = 0; ///< without an answer

    /// Instead of messages: whether somebody is there.
    std::shared_ptr<const webhook_target> asks_for;
    bool is_there = false;
    std::optional<duration> ask_again_in; ///< if that is known

    // Shared by both threads, under the lock.
    bool cancelled = false;
    bool done = false;
};

/// Stands for the system's look-up of names: the addresses of a host, in numbers.
using name_lookup = std::function<std::vector<std::string>(const std::string& host)>;

} // namespace posthorn::transports
