// Handles of librdkafka that end with their owner.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>

namespace posthorn::kafka {

template <auto End>
struct ended_by {
    template <typename Handle>
    void operator()(Handle* which) const noexcept
    {
        End(which);
    }
};

using client_handle = std::unique_ptr<rd_kafka_t, ended_by<&rd_kafka_destroy>>;
using conf_handle = std::unique_ptr<rd_kafka_conf_t, ended_by<&rd_kafka_conf_destroy>>;
using queue_handle = std::unique_ptr<rd_kafka_queue_t, ended_by<&rd_kafka_queue_destroy>>;
using event_handle = std::unique_ptr<rd_kafka_event_t, ended_by<&rd_kafka_event_destroy>>;
using headers_handle = std::unique_ptr<rd_kafka_headers_t, ended_by<&rd_kafka_headers_destroy>>;
using error_handle = std::unique_ptr<rd_kafka_error_t, ended_by<&rd_kafka_error_destroy>>;
using partitions_handle = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                          ended_by<&rd_kafka_topic_partition_list_destroy>>;
using message_handle = std::unique_ptr<rd_kafka_message_t, ended_by<&rd_kafka_message_destroy>>;

} // namespace posthorn::kafka
