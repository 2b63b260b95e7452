// The library's own calls, one after the other, each waited for.
#include "transport/rabbitmq/plain_client.hpp"

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <atomic>
#include <cstdlib>
#include <list>
#include <stdexcept>
#include <sys/time.h>
#include <unistd.h>

namespace posthorn::test {
namespace {

amqp_bytes_t plain_bytes(const std::string& text)
{
    return {text.size(), const_cast<char*>(text.data())};
}

std::string plain_text(const amqp_bytes_t& bytes)
{
    return {static_cast<const char*>(bytes.bytes), bytes.len};
}

// Lifetime: of the arguments.
struct plain_table {
    explicit plain_table(const plain_client::arguments& from)
    {
        for (const auto& [name, value] : from) {
            amqp_table_entry_t entry{};
            entry.key = plain_bytes(name);
            if (const auto* text = std::get_if<std::string>(&value)) {
                entry.value.kind = AMQP_FIELD_KIND_UTF8;
                entry.value.value.bytes = plain_bytes(*text);
            } else {
                entry.value.kind = AMQP_FIELD_KIND_I32;
                entry.value.value.i32 = std::get<int>(value);
            }
            entries.push_back(entry);
        }
    }
    [[nodiscard]] amqp_table_t get() { return {static_cast<int>(entries.size()), entries.data()}; }
    std::vector<amqp_table_entry_t> entries;
};

} // namespace

std::uint16_t rabbitmq_port()
{
    const char* port = std::getenv("POSTHORN_TEST_RABBITMQ_PORT");
    if (port == nullptr)
        throw std::runtime_error("POSTHORN_TEST_RABBITMQ_PORT is not set: run ./dev servers, and "
                                 "then this test with the variables that it prints");
    return static_cast<std::uint16_t>(std::stoi(port));
}

std::string unique_name(std::string_view kind)
{
    static std::atomic<int> counter = 0; // of this process
    timeval now{};
    ::gettimeofday(&now, nullptr);
    return std::string(kind) + "-" + std::to_string(::getpid()) + "-" +
           std::to_string(now.tv_sec * 1'000'000 + now.tv_usec) + "-" + std::to_string(++counter);
}

struct plain_client::state {
    amqp_connection_state_t connection = amqp_new_connection();

    void check(const char* what) const
    {
        const auto reply = amqp_get_rpc_reply(connection);
        check(what, reply);
        amqp_maybe_release_buffers(connection);
    }

    static void check(const std::string& what, const amqp_rpc_reply_t& reply)
    {
        if (reply.reply_type == AMQP_RESPONSE_NORMAL)
            return;
        std::string why = amqp_error_string2(reply.library_error);
        if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
            reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
            why = plain_text(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
        throw std::runtime_error(what + ": " + why);
    }
};

plain_client::plain_client(std::uint16_t port, const std::string& user, const std::string& password)
    : state_(std::make_unique<state>())
{
    auto* const socket = amqp_tcp_socket_new(state_->connection);
    timeval patience{30, 0};
    if (amqp_socket_open_noblock(socket, "127.0.0.1", port, &patience) != AMQP_STATUS_OK)
        throw std::runtime_error("RabbitMQ does not answer on port " + std::to_string(port));
    state_->check("login", amqp_login(state_->connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN,
                                      user.c_str(), password.c_str()));
    amqp_channel_open(state_->connection, 1);
    state_->check("channel");
    amqp_confirm_select(state_->connection, 1);
    state_->check("confirms");
}

plain_client::~plain_client()
{
    amqp_destroy_connection(state_->connection);
}

void plain_client::declare_exchange(const std::string& name, const std::string& type,
                                    const arguments& with)
{
    amqp_exchange_declare(state_->connection, 1, plain_bytes(name), plain_bytes(type), 0, 0, 0, 0,
                          plain_table(with).get());
    state_->check("exchange.declare");
}

void plain_client::declare_internal_exchange(const std::string& name)
{
    amqp_exchange_declare(state_->connection, 1, plain_bytes(name), amqp_cstring_bytes("fanout"), 0,
                          0, 0, 1, amqp_empty_table);
    state_->check("exchange.declare");
}

void plain_client::delete_exchange(const std::string& name)
{
    amqp_exchange_delete(state_->connection, 1, plain_bytes(name), 0);
    state_->check("exchange.delete");
}

void plain_client::declare_queue(const std::string& name, const arguments& with)
{
    amqp_queue_declare(state_->connection, 1, plain_bytes(name), 0, 1, 0, 0,
                       plain_table(with).get());
    state_->check("queue.declare");
}

void plain_client::delete_queue(const std::string& name)
{
    amqp_queue_delete(state_->connection, 1, plain_bytes(name), 0, 0);
    state_->check("queue.delete");
}

void plain_client::bind(const std::string& queue, const std::string& exchange,
                        const std::string& key, const arguments& with)
{
    amqp_queue_bind(state_->connection, 1, plain_bytes(queue), plain_bytes(exchange),
                    plain_bytes(key), plain_table(with).get());
    state_->check("queue.bind");
}

void plain_client::unbind(const std::string& queue, const std::string& exchange,
                          const std::string& key, const arguments& with)
{
    amqp_queue_unbind(state_->connection, 1, plain_bytes(queue), plain_bytes(exchange),
                      plain_bytes(key), plain_table(with).get());
    state_->check("queue.unbind");
}

std::size_t plain_client::depth(const std::string& queue)
{
    auto* const said =
        amqp_queue_declare(state_->connection, 1, plain_bytes(queue), 1, 1, 0, 0, amqp_empty_table);
    state_->check("queue.declare", amqp_get_rpc_reply(state_->connection));
    const auto result = said->message_count;
    amqp_maybe_release_buffers(state_->connection);
    return result;
}

std::optional<plain_client::got> plain_client::get(const std::string& queue)
{
    const auto reply = amqp_basic_get(state_->connection, 1, plain_bytes(queue), 1);
    state::check("basic.get", reply);
    if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD)
        return std::nullopt;
    const auto& said = *static_cast<amqp_basic_get_ok_t*>(reply.reply.decoded);
    got result;
    result.exchange = plain_text(said.exchange);
    result.routing_key = plain_text(said.routing_key);
    result.redelivered = said.redelivered != 0;
    amqp_message_t message{};
    state::check("message", amqp_read_message(state_->connection, 1, &message, 0));
    const auto& properties = message.properties;
    const auto has = [&](amqp_flags_t flag) { return (properties._flags & flag) != 0; };
    const auto text = [&](amqp_flags_t flag, const amqp_bytes_t& bytes) {
        return has(flag) ? plain_text(bytes) : std::string();
    };
    result.message_id = text(AMQP_BASIC_MESSAGE_ID_FLAG, properties.message_id);
    result.type = text(AMQP_BASIC_TYPE_FLAG, properties.type);
    result.content_type = text(AMQP_BASIC_CONTENT_TYPE_FLAG, properties.content_type);
    result.correlation_id = text(AMQP_BASIC_CORRELATION_ID_FLAG, properties.correlation_id);
    result.delivery_mode = has(AMQP_BASIC_DELIVERY_MODE_FLAG) ? properties.delivery_mode : 0;
    result.timestamp = has(AMQP_BASIC_TIMESTAMP_FLAG) ? properties.timestamp : 0;
    if (has(AMQP_BASIC_HEADERS_FLAG))
        for (int i = 0; i < properties.headers.num_entries; ++i) {
            const auto& entry = properties.headers.entries[i];
            if (entry.value.kind == AMQP_FIELD_KIND_UTF8)
                result.headers.emplace(plain_text(entry.key), plain_text(entry.value.value.bytes));
        }
    result.body = plain_text(message.body);
    amqp_destroy_message(&message);
    amqp_maybe_release_buffers(state_->connection);
    return result;
}

void plain_client::publish(const std::string& queue, const sent& what)
{
    amqp_basic_properties_t properties{};
    arguments texts;
    for (const auto& [name, value] : what.headers)
        texts.emplace(name, value);
    plain_table table(texts);
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG;
    properties.delivery_mode = 2;
    properties.headers = table.get();
    if (!what.message_id.empty()) {
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.message_id = plain_bytes(what.message_id);
    }
    if (!what.type.empty()) {
        properties._flags |= AMQP_BASIC_TYPE_FLAG;
        properties.type = plain_bytes(what.type);
    }
    for (bool confirmed = false; !confirmed;) { // a queue that has just been made may say no
        if (amqp_basic_publish(state_->connection, 1, amqp_empty_bytes, plain_bytes(queue), 0, 0,
                               &properties, plain_bytes(what.body)) != AMQP_STATUS_OK)
            throw std::runtime_error("basic.publish");
        amqp_frame_t answer{};
        if (amqp_simple_wait_frame(state_->connection, &answer) != AMQP_STATUS_OK ||
            answer.frame_type != AMQP_FRAME_METHOD)
            throw std::runtime_error("basic.publish was not answered");
        confirmed = answer.payload.method.id == AMQP_BASIC_ACK_METHOD;
        if (!confirmed && answer.payload.method.id != AMQP_BASIC_NACK_METHOD)
            throw std::runtime_error("basic.publish was answered with something else");
        amqp_maybe_release_buffers(state_->connection);
    }
}

} // namespace posthorn::test
