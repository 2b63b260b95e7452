// A member of a consumer group: partitions come and go, messages are handed out with tickets, and
// what is acknowledged is committed.
#pragma once

#include "transport/kafka/configuration.hpp"
#include "transport/kafka/lane.hpp"
#include "transport/kafka/producer.hpp"
#include <posthorn/feeds.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace posthorn::kafka {

class consumer final : public feed {
public:
    consumer(kafka_feed_options options, environment surroundings);
    ~consumer() override;

    std::vector<fed_message> receive(std::size_t at_most, const time_limit& how_long) override;
    void acknowledge(std::span<const std::uint64_t> tickets) override;
    void give_back(std::span<const std::uint64_t> tickets, duration pause) override;
    void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) override;
    void close() override;
    std::string name() const override { return name_; }

private:
    using place = std::pair<std::string, std::int32_t>; ///< topic and partition

    struct handed_out {
        place where;
        std::int64_t offset = 0;
    };

    [[nodiscard]] fed_message open(const rd_kafka_message_t& what, const place& where);
    [[nodiscard]] std::optional<handed_out> take_ticket(std::uint64_t which);
    [[nodiscard]] lane* lane_at(const place& where);
    void take_what_is_due(std::vector<fed_message>& into, std::size_t at_most);
    void take_what_comes(std::vector<fed_message>& into, std::size_t at_most, int wait_ms);
    [[nodiscard]] int wait_for(const time_limit& how_long) const;
    void put_back(const handed_out& what, monotonic_time when);
    void pause(lane& which, bool pausing);
    void commit();
    [[nodiscard]] producer& refused();
    void say(log_level level, const std::string& what) const;
    [[nodiscard]] bool is_over(const time_limit& how_long) const;

    void rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t& which);
    void committed(rd_kafka_resp_err_t result, rd_kafka_topic_partition_list_t* which);
    static void on_rebalance(rd_kafka_t* client, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t* which, void* self);
    static void on_commit(rd_kafka_t* client, rd_kafka_resp_err_t result,
                          rd_kafka_topic_partition_list_t* which, void* self);
    static void on_error(rd_kafka_t* client, int code, const char* why, void* self);

    kafka_feed_options options_;
    client_context context_;
    std::string name_;
    std::map<place, lane> lanes_;
    std::unordered_map<std::uint64_t, handed_out> tickets_;
    std::uint64_t last_ticket_ = 0;
    std::optional<monotonic_time> commit_again_ = {}; ///< after one that failed
    bool lost_ = false;
    std::atomic<bool> closed_ = false;
    client_handle client_;
    queue_handle queue_;
    std::unique_ptr<producer> refused_; ///< made when something is refused
};

} // namespace posthorn::kafka
