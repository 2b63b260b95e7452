// librabbitmq: confirms in a window.
#include "bench/raw_brokers.hpp"

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <stdexcept>

namespace bench {
namespace {

constexpr amqp_channel_t channel = 1;

amqp_bytes_t bytes(const std::string& text)
{
    return {text.size(), const_cast<char*>(text.data())};
}

class raw_rabbitmq final : public raw_broker {
public:
    raw_rabbitmq(std::string url, std::string queue)
        : db_(amqp_new_connection(), &amqp_destroy_connection), queue_(std::move(queue))
    {
        amqp_connection_info info;
        if (amqp_parse_url(url.data(), &info) != AMQP_STATUS_OK)
            throw std::runtime_error("not a URL of RabbitMQ");
        if (info.vhost[0] == '\0') // as our own URLs mean it
            info.vhost = const_cast<char*>("/");
        auto* const socket = amqp_tcp_socket_new(db_.get());
        if (amqp_socket_open(socket, info.host, info.port) != AMQP_STATUS_OK)
            throw std::runtime_error("RabbitMQ is away");
        check(amqp_login(db_.get(), info.vhost, 0, 131'072, 0, AMQP_SASL_METHOD_PLAIN, info.user,
                         info.password));
        amqp_channel_open(db_.get(), channel);
        check(amqp_get_rpc_reply(db_.get()));
        amqp_confirm_select(db_.get(), channel);
        check(amqp_get_rpc_reply(db_.get()));
    }

    void clear() override
    {
        amqp_queue_declare(db_.get(), channel, bytes(queue_), 0, 1, 0, 0, amqp_empty_table);
        check(amqp_get_rpc_reply(db_.get()));
        amqp_queue_purge(db_.get(), channel, bytes(queue_));
        check(amqp_get_rpc_reply(db_.get()));
    }

    void send(const raw_message& what, const std::vector<std::string>& ids) override
    {
        std::vector<amqp_table_entry_t> entries;
        for (const auto& [name, value] : what.headers) {
            amqp_table_entry_t entry{};
            entry.key = bytes(name);
            entry.value.kind = AMQP_FIELD_KIND_UTF8;
            entry.value.value.bytes = bytes(value);
            entries.push_back(entry);
        }
        amqp_basic_properties_t properties{};
        properties._flags =
            AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.delivery_mode = 2;
        properties.headers = {static_cast<int>(entries.size()), entries.data()};
        for (const auto& id : ids) {
            properties.message_id = bytes(id);
            if (amqp_basic_publish(db_.get(), channel, amqp_empty_bytes, bytes(queue_), 1, 0,
                                   &properties, bytes(what.payload)) != AMQP_STATUS_OK)
                throw std::runtime_error("RabbitMQ took no message");
            ++sent_;
            while (sent_ - confirmed_ >= raw_window)
                read_confirm();
        }
        while (confirmed_ < sent_)
            read_confirm();
    }

private:
    static void check(const amqp_rpc_reply_t& reply)
    {
        if (reply.reply_type != AMQP_RESPONSE_NORMAL)
            throw std::runtime_error("RabbitMQ refused");
    }

    void read_confirm()
    {
        amqp_frame_t frame;
        amqp_maybe_release_buffers(db_.get());
        if (amqp_simple_wait_frame(db_.get(), &frame) != AMQP_STATUS_OK)
            throw std::runtime_error("RabbitMQ went away");
        if (frame.frame_type != AMQP_FRAME_METHOD ||
            frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            throw std::runtime_error("RabbitMQ said something else than ack");
        confirmed_ =
            static_cast<const amqp_basic_ack_t*>(frame.payload.method.decoded)->delivery_tag;
    }

    std::unique_ptr<amqp_connection_state_t_, int (*)(amqp_connection_state_t)> db_;
    std::string queue_;
    std::uint64_t sent_ = 0;
    std::uint64_t confirmed_ = 0;
};

} // namespace

std::unique_ptr<raw_broker> open_raw_rabbitmq(const std::string& url, const std::string& queue)
{
    return std::make_unique<raw_rabbitmq>(url, queue);
}

} // namespace bench
