// One partition as a feed sees it: what is handed out, what is answered, and how far the log is
// done with. Kafka remembers one number for a partition, so that number is never beyond a message
// that is not acknowledged.
#pragma once

#include "transport/kafka/handles.hpp"
#include <posthorn/time.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace posthorn::kafka {

class lane {
public:
    lane(std::string topic, std::int32_t partition)
        : topic_(std::move(topic)), partition_(partition)
    {}

    [[nodiscard]] const std::string& topic() const noexcept { return topic_; }
    [[nodiscard]] std::int32_t partition() const noexcept { return partition_; }

    /// A message that has come is handed out.
    const rd_kafka_message_t& hand_out(message_handle what);

    [[nodiscard]] const rd_kafka_message_t* find(std::int64_t offset) const
    {
        const auto found = messages_.find(offset);
        return found == messages_.end() ? nullptr : found->second.what.get();
    }

    /// It is done with. Returns: whether the number to commit has grown.
    bool finish(std::int64_t offset);

    /// It comes again, not before `when`; and nothing new before it.
    void put_back(std::int64_t offset, monotonic_time when);

    [[nodiscard]] bool is_held() const noexcept { return waiting_ > 0; }
    [[nodiscard]] monotonic_time held_until() const noexcept { return held_until_; }

    /// The first of those that are to come again, if there is one; it is handed out with this.
    [[nodiscard]] const rd_kafka_message_t* take_next();

    /// Where a reader would have to go on; nothing: where it began.
    [[nodiscard]] std::optional<std::int64_t> position() const noexcept { return position_; }

    bool is_paused = false; ///< the client fetches nothing of it

    std::optional<std::int64_t> committed = {}; ///< asked for, and not refused

private:
    struct entry {
        message_handle what;
        bool is_waiting = false;
        bool is_done = false;
    };

    std::string topic_;
    std::int32_t partition_;
    std::map<std::int64_t, entry> messages_; ///< by offset; done ones wait for those before them
    std::optional<std::int64_t> position_;
    std::size_t waiting_ = 0;
    monotonic_time held_until_ = {};
};

} // namespace posthorn::kafka
