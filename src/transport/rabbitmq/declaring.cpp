// Whether exchanges are there, and what the transport makes before the first message is sent: the
// exchange, then the queue, then the binding. All of it is said on the channel of questions: an
// objection closes that channel, and no message is harmed.
#include "transport/rabbitmq/publisher.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace posthorn::rabbitmq {
namespace {

constexpr std::size_t exchanges_max = 10'000;

} // namespace

void check_declaration(const rabbitmq_declaration& what, const std::string& exchange)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, "RabbitMQ: " + why);
    };
    constexpr std::array<std::string_view, 4> types{"topic", "direct", "fanout", "headers"};
    if (std::ranges::find(types, what.exchange_type) == types.end())
        refuse(fmt::format("an exchange cannot be of the type '{}': it is topic, direct, fanout or "
                           "headers",
                           what.exchange_type));
    if (exchange.empty() && what.queue.empty())
        refuse("to declare something takes an exchange or a queue with a name");
    if (what.queue.starts_with("amq."))
        refuse("names that begin with 'amq.' are the broker's own: no queue can be declared so");
    if (what.queue.size() > short_string_bytes_max || what.binding.size() > short_string_bytes_max)
        refuse("queues and bindings have at most 255 bytes");
}

// False: the broker has to be asked, and was.
bool publisher::is_known(wire& on, std::string_view exchange)
{
    if (exchange.empty()) // the default exchange is everywhere
        return true;
    const auto found = exchanges_.find(exchange);
    if (found != exchanges_.end() &&
        (found->second.missing.empty() || now() - found->second.since < missing_is_news_for))
        return true;
    if (options_.declare && exchange == options_.exchange) {
        declare(on);
        return false;
    }
    ask_for(on, exchange);
    return false;
}

void publisher::ask_for(wire& on, std::string_view exchange)
{
    if (exchanges_.size() >= exchanges_max)
        exchanges_.clear();
    asked_for_ = exchange;
    on.put(questions_channel, AMQP_EXCHANGE_DECLARE_METHOD,
           amqp_exchange_declare_t{.ticket = 0,
                                   .exchange = bytes_of(exchange),
                                   .type = {},
                                   .passive = 1,
                                   .durable = 0,
                                   .auto_delete = 0,
                                   .internal = 0,
                                   .nowait = 0,
                                   .arguments = {}});
}

// The exchange, then the queue, then the binding; messages wait until that is over, or refused.
void publisher::declare(wire& on)
{
    declaring_ = true;
    declare_again_ = false;
    declared_at_ = now();
    if (options_.exchange.empty())
        return declare_queue(on);
    on.put(questions_channel, AMQP_EXCHANGE_DECLARE_METHOD,
           amqp_exchange_declare_t{.ticket = 0,
                                   .exchange = bytes_of(options_.exchange),
                                   .type = bytes_of(options_.declare->exchange_type),
                                   .passive = 0,
                                   .durable = 1,
                                   .auto_delete = 0,
                                   .internal = 0,
                                   .nowait = 0,
                                   .arguments = {}});
}

void publisher::declare_queue(wire& on)
{
    auto type = argument("x-queue-type", options_.declare->quorum ? "quorum" : "classic");
    on.put(questions_channel, AMQP_QUEUE_DECLARE_METHOD,
           amqp_queue_declare_t{.ticket = 0,
                                .queue = bytes_of(options_.declare->queue),
                                .passive = 0,
                                .durable = 1,
                                .exclusive = 0,
                                .auto_delete = 0,
                                .nowait = 0,
                                .arguments = {.num_entries = 1, .entries = &type}});
}

void publisher::bind_queue(wire& on)
{
    on.put(questions_channel, AMQP_QUEUE_BIND_METHOD,
           amqp_queue_bind_t{.ticket = 0,
                             .queue = bytes_of(options_.declare->queue),
                             .exchange = bytes_of(options_.exchange),
                             .routing_key = bytes_of(options_.declare->binding),
                             .nowait = 0,
                             .arguments = {}});
}

// What is there with other properties may do all the same, so messages are sent. Whether the
// exchange is there, the broker is asked again: an objection does not say.
void publisher::end_declaring(wire& on, std::string problem)
{
    declaring_ = false;
    if (link_.around().log && !problem.empty() && problem != not_declared_)
        link_.around().log(log_level::warning, fmt::format("RabbitMQ: what is to be declared was "
                                                           "refused: {}",
                                                           problem));
    const bool is_refused = !problem.empty();
    not_declared_ = std::move(problem);
    if (is_refused && !options_.exchange.empty())
        ask_for(on, options_.exchange);
    changed_.notify_all();
}

std::string publisher::why_not_declared(std::string_view exchange) const
{
    const bool is_ours = options_.declare && exchange == options_.exchange;
    return is_ours && !not_declared_.empty() ? "; it is not declared: " + not_declared_ : "";
}

} // namespace posthorn::rabbitmq
