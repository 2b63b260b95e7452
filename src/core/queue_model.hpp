// The outbox as a pure state machine: no I/O, no clock, no SQL.
// It is the reference: whatever it answers, every store must answer too.
#pragma once

#include "core/settlement.hpp"
#include <posthorn/delivery.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_state.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::core {

/// One message as the model sees it.
struct modelled_message {
    message_id id;
    std::int64_t position = 0;
    message_state state = message_state::ready;
    bool blocks_key = false;
    park_reason parked_for = {}; ///< of a parked one
    bool started = false;
    std::string topic;
    std::string ordering_key;
    int priority = 0;
    timestamp due_at;
    std::optional<timestamp> expires_at;
    std::optional<timestamp> finished_at;
    int attempts = 0; ///< committed starts since it was enqueued or redriven
    int errors = 0;
    int redrives = 0;
    std::string last_error;
    posthorn::fence fence{};

    /// Attempts before the delivery that is under way.
    [[nodiscard]] int starts_before() const noexcept { return attempts - (started ? 1 : 0); }
};

/// A claimed batch: its members keep their ordinals until the last one is settled.
struct modelled_batch {
    std::string owner;
    timestamp lease_until;
    std::vector<std::int64_t> members;
};

class queue_model {
public:
    enqueued enqueue(message_id id, const message& what, const enqueue_options& how, timestamp now);
    [[nodiscard]] cancel_answer cancel(message_id id, timestamp now);

    struct claimed {
        posthorn::fence fence{};
        std::vector<message_id> ids;
    };
    claimed claim(const std::string& owner, duration lease, std::size_t limit, std::size_t start,
                  timestamp now, std::span<const std::string> unpark_topics = {});
    start_answer start(const std::string& owner, fence which, message_id id, timestamp now);
    settled_as settle(const std::string& owner, fence which, message_id id, const decision& what,
                      timestamp now);
    bool renew(const std::string& owner, fence which, duration lease, timestamp now);

    /// Batches whose lease has run out, with the members still open, longest overdue first.
    struct overdue {
        posthorn::fence fence{};
        std::string owner;
        std::vector<message_id> open;
    };
    [[nodiscard]] std::vector<overdue> overdue_batches(timestamp now) const;

    std::size_t expire_due(timestamp now);
    bool redrive(message_id id, timestamp now);
    bool purge(message_id id);
    bool skip_key(const std::string& ordering_key);

    [[nodiscard]] const modelled_message* find(message_id id) const;
    [[nodiscard]] const std::map<std::int64_t, modelled_message>& messages() const
    {
        return messages_;
    }

private:
    modelled_message* open_member(const std::string& owner, fence which, message_id id);
    static void begin_attempt(modelled_message& which);
    static void take_start_back(modelled_message& which);
    void unpark(std::span<const std::string> topics, std::size_t limit);
    [[nodiscard]] bool was_called_off(fence which, message_id id) const;
    void finish(modelled_message& which, message_state state, timestamp now);
    void leave_batch(modelled_message& which);
    void let_key_go_on(const std::string& ordering_key);
    [[nodiscard]] bool key_is_held(const std::string& ordering_key) const;

    std::map<std::int64_t, modelled_message> messages_;
    std::map<message_id, std::int64_t> positions_;
    std::map<std::int64_t, modelled_batch> batches_;
    std::map<std::pair<std::string, std::string>, std::pair<locator, timestamp>> dedup_;
    std::int64_t last_position_ = 0;
    std::int64_t last_fence_ = 0;
};

} // namespace posthorn::core
