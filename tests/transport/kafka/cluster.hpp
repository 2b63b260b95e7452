// A cluster of brokers inside the test: librdkafka's own, which speaks the protocol on real sockets
// and can be told to fail. And a look at its logs that owes nothing to what is tested.
#pragma once

#include <posthorn/message.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::transports {

/// One record of a partition's log.
struct record {
    std::string topic;
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    std::string key = {};
    headers named = {};
    std::string payload = {};
};

class cluster {
public:
    explicit cluster(int brokers = 1);
    cluster(const cluster&) = delete;
    cluster& operator=(const cluster&) = delete;
    ~cluster();

    /// `kafka://host:port,…`
    [[nodiscard]] std::string url() const;

    void create(const std::string& topic, int partitions = 1);
    void forget(const std::string& topic); ///< whoever asks is told that there is none

    void go_down();
    void come_up();

    /// What becomes of the next requests to produce: a code of the protocol each, 0 for success.
    void answer_produce_with(const std::vector<int>& codes);

    /// The next requests to produce are done at once and answered later.
    void delay_produce(std::size_t how_many, std::chrono::milliseconds by);

    /// The next request to produce is refused with a code, and the one after it is answered later.
    void refuse_one_and_delay_the_next(int code, std::chrono::milliseconds by);

    /// Puts a record where it belongs, as others do.
    void add(const record& what);

    /// What is in these topics at this moment, each partition in its order.
    [[nodiscard]] std::vector<record> log(const std::vector<std::string>& topics) const;

    /// What a group has committed; −1: nothing.
    [[nodiscard]] std::int64_t committed(const std::string& group, const std::string& topic,
                                         std::int32_t partition = 0) const;

private:
    struct handles;
    std::unique_ptr<handles> handles_;
    int brokers_;
};

} // namespace posthorn::transports
