// The mock cluster of librdkafka, and plain clients of it.
#include "transport/kafka/cluster.hpp"

#include "transport/kafka/handles.hpp"

#include <librdkafka/rdkafka_mock.h>

#include <array>
#include <map>
#include <stdexcept>

namespace posthorn::transports {
namespace {

constexpr std::int16_t produce_api = 0;

using cluster_handle =
    std::unique_ptr<rd_kafka_mock_cluster_t, kafka::ended_by<&rd_kafka_mock_cluster_destroy>>;

void must(rd_kafka_resp_err_t result)
{
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error(rd_kafka_err2str(result));
}

kafka::client_handle plain_client(rd_kafka_type_t kind,
                                  const std::map<std::string, std::string>& settings)
{
    std::array<char, 512> why{};
    kafka::conf_handle conf(rd_kafka_conf_new());
    for (const auto& [name, value] : settings)
        if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), why.data(), why.size()) !=
            RD_KAFKA_CONF_OK)
            throw std::runtime_error(why.data());
    kafka::client_handle made(rd_kafka_new(kind, conf.get(), why.data(), why.size()));
    if (!made)
        throw std::runtime_error(why.data());
    (void)conf.release();
    return made;
}

} // namespace

struct cluster::handles {
    kafka::client_handle owner = plain_client(RD_KAFKA_PRODUCER, {{"log_level", "0"}});
    cluster_handle mock;

    [[nodiscard]] std::string servers() const
    {
        return rd_kafka_mock_cluster_bootstraps(mock.get());
    }
};

cluster::cluster(int brokers) : handles_(std::make_unique<handles>()), brokers_(brokers)
{
    handles_->mock.reset(rd_kafka_mock_cluster_new(handles_->owner.get(), brokers));
}

cluster::~cluster() = default;

std::string cluster::url() const
{
    return "kafka://" + handles_->servers();
}

void cluster::create(const std::string& topic, int partitions)
{
    must(rd_kafka_mock_topic_create(handles_->mock.get(), topic.c_str(), partitions, 1));
}

void cluster::forget(const std::string& topic)
{
    rd_kafka_mock_topic_set_error(handles_->mock.get(), topic.c_str(),
                                  RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
}

void cluster::go_down()
{
    must(rd_kafka_mock_broker_set_down(handles_->mock.get(), -1));
}

void cluster::come_up()
{
    must(rd_kafka_mock_broker_set_up(handles_->mock.get(), -1));
}

void cluster::answer_produce_with(const std::vector<int>& codes)
{
    for (const auto each : codes)
        rd_kafka_mock_push_request_errors(handles_->mock.get(), produce_api, 1, each);
}

void cluster::delay_produce(std::size_t how_many, std::chrono::milliseconds by)
{
    for (std::size_t i = 0; i < how_many; ++i)
        for (int broker = 1; broker <= brokers_; ++broker)
            must(rd_kafka_mock_broker_push_request_error_rtts(
                handles_->mock.get(), broker, produce_api, 1, RD_KAFKA_RESP_ERR_NO_ERROR,
                static_cast<int>(by.count())));
}

void cluster::refuse_one_and_delay_the_next(int code, std::chrono::milliseconds by)
{
    for (int broker = 1; broker <= brokers_; ++broker)
        must(rd_kafka_mock_broker_push_request_error_rtts(handles_->mock.get(), broker, produce_api,
                                                          2, code, 0, RD_KAFKA_RESP_ERR_NO_ERROR,
                                                          static_cast<int>(by.count())));
}

void cluster::add(const record& what)
{
    const auto client = plain_client(
        RD_KAFKA_PRODUCER, {{"bootstrap.servers", handles_->servers()}, {"linger.ms", "0"}});
    kafka::headers_handle named(rd_kafka_headers_new(what.named.size()));
    for (const auto& [name, value] : what.named)
        rd_kafka_header_add(named.get(), name.c_str(), -1, value.data(),
                            static_cast<ssize_t>(value.size()));
    std::array<rd_kafka_vu_t, 5> parts{};
    parts[0].vtype = RD_KAFKA_VTYPE_TOPIC;
    parts[0].u.cstr = what.topic.c_str();
    parts[1].vtype = RD_KAFKA_VTYPE_PARTITION;
    parts[1].u.i32 = what.partition;
    parts[2].vtype = RD_KAFKA_VTYPE_VALUE;
    parts[2].u.mem.ptr = const_cast<char*>(what.payload.data()); // NOLINT: not written to
    parts[2].u.mem.size = what.payload.size();
    parts[3].vtype = RD_KAFKA_VTYPE_KEY;
    parts[3].u.mem.ptr = const_cast<char*>(what.key.data()); // NOLINT
    parts[3].u.mem.size = what.key.size();
    parts[4].vtype = RD_KAFKA_VTYPE_HEADERS;
    parts[4].u.headers = named.get();
    const kafka::error_handle failed(rd_kafka_produceva(client.get(), parts.data(), parts.size()));
    if (failed)
        throw std::runtime_error(rd_kafka_error_string(failed.get()));
    (void)named.release();
    must(rd_kafka_flush(client.get(), 30'000));
}

std::vector<record> cluster::log(const std::vector<std::string>& topics) const
{
    const auto client = plain_client(RD_KAFKA_CONSUMER, {{"bootstrap.servers", handles_->servers()},
                                                         {"group.id", "a look at the logs"},
                                                         {"enable.auto.commit", "false"},
                                                         {"fetch.wait.max.ms", "10"},
                                                         {"auto.offset.reset", "earliest"}});
    rd_kafka_poll_set_consumer(client.get());
    std::vector<record> result;
    for (const auto& topic : topics) {
        const rd_kafka_metadata_t* known = nullptr;
        std::unique_ptr<rd_kafka_topic_t, kafka::ended_by<&rd_kafka_topic_destroy>> handle(
            rd_kafka_topic_new(client.get(), topic.c_str(), nullptr));
        must(rd_kafka_metadata(client.get(), 0, handle.get(), &known, 30'000));
        const int partitions = known->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(known);
        for (int partition = 0; partition < partitions; ++partition) {
            std::int64_t low = 0;
            std::int64_t high = 0;
            must(rd_kafka_query_watermark_offsets(client.get(), topic.c_str(), partition, &low,
                                                  &high, 30'000));
            if (low == high)
                continue;
            const kafka::partitions_handle one(rd_kafka_topic_partition_list_new(1));
            rd_kafka_topic_partition_list_add(one.get(), topic.c_str(), partition)->offset = low;
            must(rd_kafka_assign(client.get(), one.get()));
            for (auto next = low; next < high;) {
                const kafka::message_handle got(rd_kafka_consumer_poll(client.get(), 30'000));
                if (!got)
                    throw std::runtime_error("the log does not come");
                if (got->err != RD_KAFKA_RESP_ERR_NO_ERROR)
                    continue; // such as a broker that comes up
                record each{.topic = topic,
                            .partition = partition,
                            .offset = got->offset,
                            .key = std::string(static_cast<const char*>(got->key), got->key_len),
                            .payload =
                                std::string(static_cast<const char*>(got->payload), got->len)};
                rd_kafka_headers_t* named = nullptr;
                if (rd_kafka_message_headers(got.get(), &named) == RD_KAFKA_RESP_ERR_NO_ERROR) {
                    const char* name = nullptr;
                    const void* value = nullptr;
                    std::size_t size = 0;
                    for (std::size_t i = 0;
                         rd_kafka_header_get_all(named, i, &name, &value, &size) ==
                         RD_KAFKA_RESP_ERR_NO_ERROR;
                         ++i)
                        each.named.emplace(name,
                                           std::string(static_cast<const char*>(value), size));
                }
                next = got->offset + 1;
                result.push_back(std::move(each));
            }
        }
    }
    must(rd_kafka_consumer_close(client.get()));
    return result;
}

std::int64_t cluster::committed(const std::string& group, const std::string& topic,
                                std::int32_t partition) const
{
    const auto client = plain_client(
        RD_KAFKA_CONSUMER, {{"bootstrap.servers", handles_->servers()}, {"group.id", group}});
    const kafka::partitions_handle one(rd_kafka_topic_partition_list_new(1));
    auto* where = rd_kafka_topic_partition_list_add(one.get(), topic.c_str(), partition);
    must(rd_kafka_committed(client.get(), one.get(), 30'000));
    return where->offset < 0 ? -1 : where->offset;
}

} // namespace posthorn::transports
