// Those who carry messages between two stores: a relay at one, a feed at the other, and a broker
// between them. Each may be killed at any time.
#pragma once

#include <posthorn/feeds.hpp>
#include <posthorn/transport.hpp>

#include <memory>
#include <string>

namespace posthorn::torture {

/// A place at a broker, by whatever it is called there: a queue, or a stream.
struct place {
    std::string broker; ///< its URL: amqp, nats or redis
    std::string name;
};

/// The way to it. Messages of all topics go there.
[[nodiscard]] std::shared_ptr<transport> way_to(const place& where, const environment& world);

/// The template of a relay's destination that leads there.
[[nodiscard]] std::string destination_of(const place& where);

/// The way from it; who comes next takes up where one was killed.
[[nodiscard]] std::unique_ptr<feed> way_from(const place& where, const environment& world);

} // namespace posthorn::torture
