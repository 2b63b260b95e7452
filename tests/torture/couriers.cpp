// One queue or stream, in the words of each broker.
#include "torture/couriers.hpp"

#include <posthorn/nats.hpp>
#include <posthorn/rabbitmq.hpp>
#include <posthorn/redis.hpp>

#include <stdexcept>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;

enum class broker_kind { rabbitmq, nats, redis };

broker_kind kind_of(const std::string& url)
{
    if (url.starts_with("amqp:"))
        return broker_kind::rabbitmq;
    if (url.starts_with("nats:"))
        return broker_kind::nats;
    if (url.starts_with("redis:"))
        return broker_kind::redis;
    throw std::invalid_argument("no broker is at " + url);
}

} // namespace

std::shared_ptr<transport> way_to(const place& where, const environment& world)
{
    switch (kind_of(where.broker)) {
    case broker_kind::rabbitmq: return open_rabbitmq({.url = where.broker}, world);
    case broker_kind::nats: return open_nats({.url = where.broker}, world);
    case broker_kind::redis: return open_redis({.url = where.broker}, world);
    }
    return {};
}

std::string destination_of(const place& where)
{
    return kind_of(where.broker) == broker_kind::rabbitmq ? "/" + where.name : where.name;
}

std::unique_ptr<feed> way_from(const place& where, const environment& world)
{
    switch (kind_of(where.broker)) {
    case broker_kind::rabbitmq:
        // A broker that is killed within three minutes of making a quorum queue forgets the name
        // under which it keeps it, and waits for ever for somebody who leads it.
        return open_rabbitmq_feed({.url = where.broker,
                                   .queue = where.name,
                                   .declare = true,
                                   .quorum = false,
                                   .prefetch = 50},
                                  world);
    case broker_kind::nats:
        return open_nats_feed(
            {.url = where.broker, .stream = where.name, .consumer = "torture", .ack_wait = 2s},
            world);
    case broker_kind::redis:
        return open_redis_feed(
            {.url = where.broker, .stream = where.name, .group = "torture", .consumer = "one"},
            world);
    }
    return {};
}

} // namespace posthorn::torture
