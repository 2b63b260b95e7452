// Consuming with acknowledgements. A ticket is the delivery's number on its connection, and above
// all those of connections before: an old one is known by being small.
#include "transport/rabbitmq/feed.hpp"

#include "transport/envelope.hpp"
#include <posthorn/error.hpp>
#include <posthorn/id.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace posthorn::rabbitmq {
namespace {

constexpr amqp_channel_t feed_channel = 1;
constexpr auto delivery_number_max = std::uint64_t{1} << 48U; // of one connection

rabbitmq_feed_options checked_feed(rabbitmq_feed_options options)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, "RabbitMQ: " + why);
    };
    if (options.queue.empty() || options.queue.size() > 255)
        refuse("a feed needs the name of its queue, of at most 255 bytes");
    if (options.prefetch == 0 || options.prefetch > 65'535)
        refuse("the prefetch is from 1 to 65535 messages");
    if (options.dead_letter_exchange.size() > 255)
        refuse("an exchange's name has at most 255 bytes");
    if (options.refused_pause < duration::zero())
        refuse("refused_pause is not negative");
    check_connection(options.connection);
    return options;
}

} // namespace

unanswered::acknowledgement unanswered::acknowledge(const std::vector<std::uint64_t>& numbers)
{
    for (const auto each : numbers)
        if (const auto found = all_.find(each); found != all_.end())
            found->second = true;
    acknowledgement result;
    while (!all_.empty() && all_.begin()->second) {
        result.up_to = all_.begin()->first;
        all_.erase(all_.begin());
    }
    for (const auto each : numbers)
        if (all_.erase(each) > 0)
            result.single.push_back(each);
    return result;
}

queue_feed::queue_feed(rabbitmq_feed_options options, environment around)
    : options_(checked_feed(std::move(options))),
      link_(addresses_of(options_.url), options_.connection, std::move(around))
{
    link_.start({.serve = [this](wire& on) { serve(on); }, .lost = [](const std::string&) {}});
}

queue_feed::~queue_feed()
{
    link_.stop();
}

// ----------------------------------------------------------------------------------- the contract

std::vector<fed_message> queue_feed::receive(std::size_t at_most, const time_limit& how_long)
{
    std::vector<fed_message> result;
    std::unique_lock lock(mutex_);
    const auto enough = [&] { return closed_ || !here_.empty(); };
    while (!enough() && !how_long.stop.stop_requested()) {
        if (!how_long.until) {
            changed_.wait(lock, how_long.stop, enough);
            continue;
        }
        const auto left = *how_long.until - now();
        if (left <= duration::zero())
            break;
        changed_.wait_for(lock, how_long.stop, left, enough);
    }
    if (closed_)
        return result;
    while (result.size() < at_most && !here_.empty()) {
        result.push_back(std::move(here_.front()));
        here_.pop_front();
    }
    return result;
}

std::vector<std::uint64_t> queue_feed::numbers_of(std::span<const std::uint64_t> tickets) const
{
    std::vector<std::uint64_t> result;
    for (const auto each : tickets)
        if (each > ticket_base_ && open_.contains(each - ticket_base_))
            result.push_back(each - ticket_base_);
    return result;
}

void queue_feed::acknowledge(std::span<const std::uint64_t> tickets)
{
    const std::lock_guard lock(mutex_);
    const auto numbers = numbers_of(tickets);
    acknowledged_.insert(acknowledged_.end(), numbers.begin(), numbers.end());
    link_.ring();
}

void queue_feed::give_back(std::span<const std::uint64_t> tickets, duration pause)
{
    const std::lock_guard lock(mutex_);
    for (const auto each : numbers_of(tickets))
        rejected_.emplace(now() + pause, rejection{each, fate::requeue});
    link_.ring();
}

void queue_feed::refuse(std::span<const std::uint64_t> tickets, const std::string& reason)
{
    const std::lock_guard lock(mutex_);
    for (const auto each : numbers_of(tickets))
        refuse_number(each, reason);
    link_.ring();
}

// Without a place for it, the broker would throw it away.
void queue_feed::refuse_number(std::uint64_t number, const std::string& reason)
{
    const bool kept = !options_.dead_letter_exchange.empty();
    rejected_.emplace(kept ? now() : now() + options_.refused_pause,
                      rejection{number, kept ? fate::dead_letter : fate::requeue});
    if (link_.around().log)
        link_.around().log(
            log_level::warning,
            fmt::format("a message of RabbitMQ's queue '{}' {}: {}", options_.queue,
                        kept ? "became a dead letter" : "was refused and comes again", reason));
}

void queue_feed::close()
{
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    link_.stop();
}

std::string queue_feed::name() const
{
    return fmt::format("RabbitMQ at {}, queue '{}'", link_.places(), options_.queue);
}

// ------------------------------------------------------------------------------------ the thread

void queue_feed::serve(wire& on)
{
    try {
        {
            const std::lock_guard lock(mutex_);
            begin(on);
        }
        while (!link_.is_over()) {
            on.flush();
            std::optional<duration> patience;
            {
                const std::lock_guard lock(mutex_);
                look(on);
                if (!rejected_.empty())
                    patience = std::max(duration::zero(), rejected_.begin()->first - now());
            }
            on.flush();
            if (!link_.is_over())
                on.wait(patience);
        }
        const std::lock_guard lock(mutex_);
        answer(on); // what was acknowledged before the end is acknowledged
    } catch (...) { // whatever it is, it ends the connection
        lose();
        throw;
    }
}

void queue_feed::begin(wire& on)
{
    ticket_base_ = ticket_last_;
    delivery_number_ = 0;
    on.put(feed_channel, AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t{});
    if (!options_.dead_letter_exchange.empty())
        on.put(feed_channel, AMQP_EXCHANGE_DECLARE_METHOD,
               amqp_exchange_declare_t{.ticket = 0,
                                       .exchange = bytes_of(options_.dead_letter_exchange),
                                       .type = {},
                                       .passive = 1,
                                       .durable = 0,
                                       .auto_delete = 0,
                                       .internal = 0,
                                       .nowait = 0,
                                       .arguments = {}});
    std::vector arguments{argument("x-queue-type", options_.quorum ? "quorum" : "classic")};
    if (!options_.dead_letter_exchange.empty())
        arguments.push_back(argument("x-dead-letter-exchange", options_.dead_letter_exchange));
    on.put(feed_channel, AMQP_QUEUE_DECLARE_METHOD,
           amqp_queue_declare_t{.ticket = 0,
                                .queue = bytes_of(options_.queue),
                                .passive = options_.declare ? 0 : 1,
                                .durable = 1,
                                .exclusive = 0,
                                .auto_delete = 0,
                                .nowait = 0,
                                .arguments = {.num_entries = static_cast<int>(arguments.size()),
                                              .entries = arguments.data()}});
    on.put(feed_channel, AMQP_BASIC_QOS_METHOD,
           amqp_basic_qos_t{.prefetch_size = 0,
                            .prefetch_count = static_cast<std::uint16_t>(options_.prefetch),
                            .global = 0});
    on.put(feed_channel, AMQP_BASIC_CONSUME_METHOD,
           amqp_basic_consume_t{.ticket = 0,
                                .queue = bytes_of(options_.queue),
                                .consumer_tag = {},
                                .no_local = 0,
                                .no_ack = 0,
                                .exclusive = 0,
                                .nowait = 0,
                                .arguments = {}});
}

void queue_feed::look(wire& on)
{
    answer(on);
    const bool were_none = here_.empty();
    on.receive([&](const amqp_frame_t& frame) { take(on, frame); });
    answer(on);
    if (were_none && !here_.empty())
        changed_.notify_all();
}

// Tells the broker what was answered.
void queue_feed::answer(wire& on)
{
    if (!acknowledged_.empty()) {
        const auto what = open_.acknowledge(std::exchange(acknowledged_, {}));
        if (what.up_to != 0)
            on.put(feed_channel, AMQP_BASIC_ACK_METHOD,
                   amqp_basic_ack_t{.delivery_tag = what.up_to, .multiple = 1});
        for (const auto each : what.single)
            on.put(feed_channel, AMQP_BASIC_ACK_METHOD,
                   amqp_basic_ack_t{.delivery_tag = each, .multiple = 0});
    }
    reject_due(on);
}

void queue_feed::reject_due(wire& on)
{
    const auto due = rejected_.upper_bound(now());
    for (auto each = rejected_.begin(); each != due; ++each) {
        const auto& [number, what] = each->second;
        if (!open_.contains(number)) // answered twice
            continue;
        open_.answer(number);
        on.put(feed_channel, AMQP_BASIC_NACK_METHOD,
               amqp_basic_nack_t{.delivery_tag = number,
                                 .multiple = 0,
                                 .requeue = what == fate::requeue ? 1 : 0});
    }
    rejected_.erase(rejected_.begin(), due);
}

// What has no answer comes again, so what is here would be a second copy.
void queue_feed::lose()
{
    const std::lock_guard lock(mutex_);
    here_.clear();
    open_.clear();
    acknowledged_.clear();
    rejected_.clear();
    delivery_ = {};
    ticket_base_ = ticket_last_;
}

// ------------------------------------------------------------------------------------- receiving

void queue_feed::take(wire& on, const amqp_frame_t& frame)
{
    if (frame.frame_type == AMQP_FRAME_METHOD)
        take_method(on, frame.payload.method);
    else if (frame.channel == feed_channel && delivery_.add(frame))
        take_whole();
}

void queue_feed::take_method(wire& on, const amqp_method_t& method)
{
    switch (method.id) {
    case AMQP_BASIC_DELIVER_METHOD: {
        const auto& said = *static_cast<const amqp_basic_deliver_t*>(method.decoded);
        // They make our tickets, which have to grow.
        if (said.delivery_tag <= delivery_number_ || said.delivery_tag > delivery_number_max)
            throw broken("the broker numbers its deliveries as it likes");
        delivery_number_ = said.delivery_tag;
        delivery_routing_key_ = text_of(said.routing_key);
        return delivery_.begin();
    }
    case AMQP_BASIC_CONSUME_OK_METHOD: return link_.works();
    case AMQP_BASIC_CANCEL_METHOD:
        throw broken(
            fmt::format("the queue '{}' was deleted, or its node is gone", options_.queue));
    case AMQP_CHANNEL_CLOSE_METHOD:
        on.put(feed_channel, AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t{});
        on.flush();
        throw broken(
            fmt::format("the queue '{}' cannot be read: {}", options_.queue,
                        closing_words(*static_cast<const amqp_channel_close_t*>(method.decoded))));
    case AMQP_CONNECTION_CLOSE_METHOD:
        on.put(0, AMQP_CONNECTION_CLOSE_OK_METHOD, amqp_connection_close_ok_t{});
        on.flush();
        throw broken("the broker closed the connection: " +
                     closing_words(*static_cast<const amqp_connection_close_t*>(method.decoded)));
    default: return;
    }
}

void queue_feed::take_whole()
{
    auto whole = delivery_.take();
    auto made = transports::opened(
        std::move(whole.table), std::move(whole.body),
        {.id = std::move(whole.message_id),
         .topic = whole.type.empty() ? delivery_routing_key_ : std::move(whole.type)},
        transports::amqp_attributes);
    open_.add(delivery_number_);
    ticket_last_ = made.ticket = ticket_base_ + delivery_number_;
    if (made.id.empty() && options_.accept_without_id)
        made.id = to_string(uuid::version_7(link_.around().clock->now(), *link_.around().random));
    if (made.id.empty())
        refuse_number(delivery_number_, "it has no message_id, so nobody could tell whether it "
                                        "came before");
    else
        here_.push_back(std::move(made));
}

} // namespace posthorn::rabbitmq

namespace posthorn {

void check_rabbitmq_feed(const rabbitmq_feed_options& options)
{
    (void)rabbitmq::checked_feed(options);
    (void)rabbitmq::addresses_of(options.url);
}

std::unique_ptr<feed> open_rabbitmq_feed(rabbitmq_feed_options options, environment around)
{
    return std::make_unique<rabbitmq::queue_feed>(std::move(options), std::move(around));
}

} // namespace posthorn
