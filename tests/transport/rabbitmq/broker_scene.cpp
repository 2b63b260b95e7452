// Who is refused is decided by the message's id, in a header: no other message is touched.
#include "transport/rabbitmq/broker_scene.hpp"

namespace posthorn::test {

broker_scene::broker_scene()
{
    client.declare_exchange(by_topic, "topic");
    client.declare_exchange(exchange, "headers", {{"alternate-exchange", by_topic}});
    client.declare_queue(queue);
    client.declare_queue(full, {{"x-max-length", 0}, {"x-overflow", "reject-publish"}});
}

broker_scene::~broker_scene()
{
    client.delete_queue(queue);
    client.delete_queue(full);
    client.delete_exchange(exchange);
    client.delete_exchange(by_topic);
}

std::string broker_scene::url(const std::string& user, const std::string& password) const
{
    return "amqp://" + user + ":" + password + "@127.0.0.1:" + std::to_string(gate.port());
}

rabbitmq_options broker_scene::options() const
{
    return {.url = url(), .exchange = exchange, .payload_bytes_max = 300'000};
}

void broker_scene::listen(std::string_view pattern)
{
    std::string key(pattern);
    if (key.ends_with(".*"))
        key.replace(key.size() - 1, 1, "#");
    client.bind(queue, by_topic, key);
}

void broker_scene::reject(const std::string& id)
{
    client.bind(full, exchange, "", {{"x-match", "all"}, {"posthorn-msg-id", id}});
}

void broker_scene::reject_nothing_more(const std::string& id)
{
    client.unbind(full, exchange, "", {{"x-match", "all"}, {"posthorn-msg-id", id}});
}

} // namespace posthorn::test
