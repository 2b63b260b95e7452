// Publishing with confirms. Channel 1 carries messages. Channel 2 asks whether an exchange is
// there, before the first message for it: one for a missing exchange would close channel 1, and
// what is on its way there would remain in doubt.
#include "transport/rabbitmq/publisher.hpp"

#include "core/planted.hpp"
#include "transport/rabbitmq/words.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace posthorn::rabbitmq {
namespace {

// So much is put before it is sent: some hundred messages with one write.
constexpr std::size_t write_bytes = std::size_t{256} * 1024;

// A full queue says no as well, so this is how often it costs a round trip.
constexpr duration refusals_are_believed_for = std::chrono::seconds{1};

// A message that gets no answer must not keep the others for longer than this from being sent.
constexpr duration hold_for_new_channel = std::chrono::seconds{1};

void check_options(const rabbitmq_options& options)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, "RabbitMQ: " + why);
    };
    if (options.window == 0 || options.window > 100'000)
        refuse("the window is from 1 to 100000 messages");
    if (options.payload_bytes_max == 0)
        refuse("payload_bytes_max is more than nothing");
    if (options.answer_within <= duration::zero())
        refuse("answer_within is more than nothing");
    if (options.exchange.size() > short_string_bytes_max ||
        options.routing_key.size() > short_string_bytes_max)
        refuse("exchanges and routing keys have at most 255 bytes");
    if (options.source.empty())
        refuse("the source is who sends, such as 'shop'; it cannot be empty");
    check_connection(options.connection);
    if (options.declare)
        check_declaration(*options.declare, options.exchange);
}

rabbitmq_options checked(rabbitmq_options options)
{
    check_options(options);
    return options;
}

template <typename Method>
const Method& as(const amqp_method_t& method)
{
    return *static_cast<const Method*>(method.decoded);
}

} // namespace

publisher::publisher(rabbitmq_options options, environment around)
    : options_(checked(std::move(options))),
      link_(addresses_of(options_.url), options_.connection, std::move(around))
{
    link_.start({.serve = [this](wire& on) { serve(on); },
                 .lost = [this](const std::string& why) { lost(why); }});
}

publisher::~publisher()
{
    link_.stop();
}

// ----------------------------------------------------------------------------------- the contract

template <typename Condition>
bool publisher::wait(std::unique_lock<std::mutex>& lock, std::condition_variable_any& told,
                     const time_limit& how_long, Condition condition)
{
    while (!condition()) {
        if (how_long.stop.stop_requested())
            return false;
        if (!how_long.until) {
            told.wait(lock, how_long.stop, condition);
            continue;
        }
        const auto left = *how_long.until - now();
        if (left <= duration::zero())
            return false;
        told.wait_for(lock, how_long.stop, left, condition);
    }
    return true;
}

std::vector<publish_answer> publisher::publish(std::span<const transport_message> what,
                                               const time_limit& how_long)
{
    if (what.empty())
        return {};
    batch mine(what);
    auto limit = how_long;
    if (!limit.until)
        limit.until = now() + options_.answer_within;
    std::unique_lock lock(mutex_);
    if (closed_)
        return mine.end({}, publish_answer::no(refusal::closed, "the transport was closed"));
    if (limit.stop.stop_requested() || now() >= *limit.until)
        return mine.end({}, publish_answer::no(refusal::busy, "there was no time to send it"));
    const auto place = batches_.insert(batches_.end(), &mine);
    link_.ring();
    const bool in_time = wait(lock, mine.done, limit, [&] { return mine.is_done(); });
    batches_.erase(place);
    if (!in_time) {
        window_.forget(mine);
        std::erase_if(isolated_, [&](const auto& each) { return each.first == &mine; });
        link_.ring(); // what waited behind it can go
    }
    auto answers =
        mine.end(publish_answer::no_answer("the broker did not answer in time"), reason_not_sent());
    const bool last = closed_ && batches_.empty();
    changed_.notify_all();
    lock.unlock();
    if (last)
        link_.stop();
    return answers;
}

publish_answer publisher::reason_not_sent() const
{
    if (!ready_)
        return publish_answer::no(refusal::unavailable, failure_);
    if (blocked_)
        return publish_answer::no(refusal::busy, "the broker asks to wait: " + *blocked_);
    return publish_answer::no(refusal::busy, "there was no time to send it");
}

// Whoever asks wants to know how it is now, so the thread has to look at the connection first.
bool publisher::wait_until_ready(const time_limit& how_long)
{
    std::unique_lock lock(mutex_);
    const auto look = ++looks_wanted_;
    link_.ring();
    const auto is_ready = [&] {
        return ready_ && !blocked_ && asked_for_.empty() && !declaring_ && looks_done_ >= look;
    };
    (void)wait(lock, changed_, how_long, [&] { return closed_ || is_ready(); });
    return !closed_ && is_ready();
}

void publisher::close(const time_limit& how_long)
{
    std::unique_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    const bool over = wait(lock, changed_, how_long, [&] { return batches_.empty(); });
    lock.unlock();
    if (over)
        link_.stop();
}

transport_capabilities publisher::capabilities() const
{
    return {.payload_bytes_max = options_.payload_bytes_max,
            .headers_bytes_max = 100'000, // they share one frame
            .confirms = true,
            .reports_unroutable = options_.mandatory,
            .keeps_order = true};
}

std::string publisher::name() const
{
    return fmt::format("RabbitMQ at {}, exchange '{}'", link_.places(), options_.exchange);
}

// ------------------------------------------------------------------------------------ the thread

void publisher::serve(wire& on)
{
    try {
        {
            const std::lock_guard lock(mutex_);
            begin(on);
        }
        while (!link_.is_over()) {
            on.flush();
            bool more = false;
            {
                const std::lock_guard lock(mutex_);
                look(on);
                more = fill(on);
            }
            on.flush();
            if (!more || on.unsent() >= write_bytes)
                on.wait(patience());
        }
    } catch (...) { // whatever it is, it ends the connection
        lose(on.flushed_so_far());
        throw;
    }
}

std::optional<duration> publisher::patience() const
{
    if (!hold_until_)
        return std::nullopt;
    return std::max(duration::zero(), *hold_until_ - now());
}

void publisher::begin(wire& on)
{
    exchanges_.clear();
    asked_for_.clear();
    returned_ = {};
    renewing_ = false;
    open_channel(on);
    on.put(questions_channel, AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t{});
    declaring_ = false;
    if (options_.declare)
        declare(on);
    else
        (void)is_known(on, options_.exchange); // so that the first message need not wait for it
}

void publisher::open_channel(wire& on)
{
    ready_ = false;
    on.put(messages_channel, AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t{});
    on.put(messages_channel, AMQP_CONFIRM_SELECT_METHOD, amqp_confirm_select_t{});
}

void publisher::look(wire& on)
{
    const auto wanted = looks_wanted_;
    on.receive([&](const amqp_frame_t& frame) { take(on, frame); });
    if (looks_done_ != wanted) {
        looks_done_ = wanted;
        changed_.notify_all();
    }
}

// The connection is gone: what has left with it is in doubt, all else is still ours.
void publisher::lose(std::uint64_t flushed)
{
    const std::lock_guard lock(mutex_);
    const auto in_doubt = [] {
        return publish_answer::no_answer("the connection was lost before the answer came");
    };
    auto flights = window_.drain();
    for (auto each = flights.rbegin(); each != flights.rend(); ++each) {
        if (each->start >= flushed)
            each->from->again(each->which, batch::doubt::none);
        else
            each->from->settle(each->which, in_doubt());
    }
    for (const auto& [from, which] : std::exchange(isolated_, {})) // which were sent before
        from->settle(which, in_doubt());
    alone_ = false;
    ready_ = false;
    renewing_ = false;
    blocked_.reset();
    failure_ = "the connection was lost";
    changed_.notify_all();
}

void publisher::lost(const std::string& why)
{
    const std::lock_guard lock(mutex_);
    failure_ = why;
}

// --------------------------------------------------------------------------------------- sending

// True: there is more to put when what was put has left.
bool publisher::fill(wire& on)
{
    hold_until_.reset();
    if (declare_again_ && !declaring_ && asked_for_.empty())
        declare(on);
    if (!ready_ || blocked_ || declaring_ || renew_channel(on) || leave_crowd(on) ||
        !fill_isolated(on))
        return false;
    for (auto* from : batches_)
        while (true) {
            if (!asked_for_.empty() || declaring_ || window_.awaited() >= options_.window ||
                is_crowded())
                return false;
            if (on.unsent() >= write_bytes)
                return true;
            const auto which = from->next();
            if (!which)
                break;
            if (send(on, *from, *which) == sending::ask)
                from->again(*which, batch::doubt::none);
        }
    return false;
}

// A channel to a queue whose leader is gone may say no for as long as it lives, while a new one
// would find the new leader. True: others have to wait for it.
bool publisher::renew_channel(wire& on)
{
    const auto since = window_.refused_since();
    if (!since || now() - *since < refusals_are_believed_for)
        return false;
    const auto hold_until = *since + refusals_are_believed_for + hold_for_new_channel;
    if (window_.awaited() == 0) {
        replace_channel(on);
    } else if (now() < hold_until) {
        hold_until_ = hold_until;
    } else {
        window_.believe_refusals(now());
        return false;
    }
    return true;
}

// Messages without an answer whose publishers have left: where a queue has lost its majority, they
// become more and more. True: others have to wait for a channel without them.
bool publisher::leave_crowd(wire& on)
{
    if (!is_crowded())
        return false;
    if (window_.awaited() == 0)
        replace_channel(on);
    return true;
}

bool publisher::is_crowded() const
{
    return window_.forgotten() >= options_.window;
}

// The broker's word that the old one is closed opens the new one: until then the number is taken.
void publisher::replace_channel(wire& on)
{
    (void)window_.drain(); // numbers start again
    ready_ = false;
    renewing_ = true;
    failure_ = "the broker has not closed the channel that is to be replaced";
    on.put(
        messages_channel, AMQP_CHANNEL_CLOSE_METHOD,
        amqp_channel_close_t{.reply_code = 200, .reply_text = {}, .class_id = 0, .method_id = 0});
}

// One at a time, with nothing else on the way. False: others have to wait.
bool publisher::fill_isolated(wire& on)
{
    if (window_.forgotten() > 0 && window_.awaited() == 0 && (alone_ || !isolated_.empty())) {
        alone_ = false;
        replace_channel(on); // or an objection to that one would be taken for one to the next
        return false;
    }
    if (alone_ && !window_.empty())
        return false;
    alone_ = false;
    while (!isolated_.empty() && window_.empty() && asked_for_.empty() && !declaring_) {
        const auto [from, which] = isolated_.front();
        if (send(on, *from, which) == sending::over)
            isolated_.pop_front();
        alone_ = !window_.empty();
    }
    return isolated_.empty() && !alone_;
}

publisher::sending publisher::send(wire& on, batch& from, std::size_t which)
{
    const auto& what = from.at(which);
    const auto refuse = [&](refusal why, std::string detail) {
        from.settle(which, publish_answer::no(why, std::move(detail)));
        return sending::over;
    };
    if (what.payload.size() > options_.payload_bytes_max)
        return refuse(refusal::too_large,
                      fmt::format("the payload is {} bytes long; at most {} are carried",
                                  what.payload.size(), options_.payload_bytes_max));
    const auto where = route_of(what);
    if (where.exchange.size() > short_string_bytes_max ||
        where.routing_key.size() > short_string_bytes_max)
        return refuse(refusal::malformed, "exchanges and routing keys have at most 255 bytes");
    if (!is_known(on, where.exchange))
        return sending::ask;
    if (const auto found = exchanges_.find(where.exchange);
        found != exchanges_.end() && !found->second.missing.empty())
        return refuse(refusal::unroutable,
                      fmt::format("{} ({}){}", found->second.missing, words_of(where),
                                  why_not_declared(where.exchange)));
    if (auto wrong = content_.fill(what, options_.source, options_.persistent))
        return refuse(refusal::malformed, std::move(*wrong));
    const auto start = on.put_so_far();
    const amqp_basic_publish_t method{.ticket = 0,
                                      .exchange = bytes_of(where.exchange),
                                      .routing_key = bytes_of(where.routing_key),
                                      .mandatory = options_.mandatory ? 1 : 0,
                                      .immediate = 0};
    if (!on.put_content(messages_channel, method, content_.properties, what.payload))
        return refuse(refusal::too_large, "the headers are more than the broker takes");
    window_.add(
        {.from = &from, .which = which, .id = what.id, .route = hash_of(where), .start = start});
    return sending::over;
}

route publisher::route_of(const transport_message& what) const
{
    route result{options_.exchange, options_.routing_key.empty()
                                        ? std::string_view(what.topic)
                                        : std::string_view(options_.routing_key)};
    if (what.destination.empty())
        return result;
    const std::string_view said(what.destination);
    const auto slash = said.find('/');
    result.exchange = said.substr(0, slash);
    if (slash != std::string_view::npos)
        result.routing_key = said.substr(slash + 1);
    return result;
}

// ------------------------------------------------------------------------------------- receiving

void publisher::take(wire& on, const amqp_frame_t& frame)
{
    if (frame.frame_type != AMQP_FRAME_METHOD) {
        if (frame.channel == messages_channel && returned_.add(frame))
            take_returned();
        return;
    }
    switch (frame.channel) {
    case 0: return take_connection(on, frame.payload.method);
    case messages_channel: return take_messages(on, frame.payload.method);
    case questions_channel: return take_questions(on, frame.payload.method);
    default: return;
    }
}

void publisher::take_connection(wire& on, const amqp_method_t& method)
{
    switch (method.id) {
    case AMQP_CONNECTION_BLOCKED_METHOD:
        blocked_ = text_of(as<amqp_connection_blocked_t>(method).reason);
        if (link_.around().log)
            link_.around().log(log_level::warning, "RabbitMQ asks to wait: " + *blocked_);
        return;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        blocked_.reset();
        changed_.notify_all();
        return;
    case AMQP_CONNECTION_CLOSE_METHOD:
        on.put(0, AMQP_CONNECTION_CLOSE_OK_METHOD, amqp_connection_close_ok_t{});
        on.flush();
        throw broken("the broker closed the connection: " +
                     closing_words(as<amqp_connection_close_t>(method)));
    default: return;
    }
}

void publisher::take_messages(wire& on, const amqp_method_t& method)
{
    switch (method.id) {
    case AMQP_CONFIRM_SELECT_OK_METHOD:
        ready_ = true;
        link_.works();
        changed_.notify_all();
        return;
    case AMQP_BASIC_ACK_METHOD: {
        const auto& said = as<amqp_basic_ack_t>(method);
        link_.all_is_well();
        return window_.confirm(said.delivery_tag, said.multiple != 0, true, now());
    }
    case AMQP_BASIC_NACK_METHOD: {
        const auto& said = as<amqp_basic_nack_t>(method);
        return window_.confirm(said.delivery_tag, said.multiple != 0, false, now());
    }
    case AMQP_BASIC_RETURN_METHOD: {
        const auto& said = as<amqp_basic_return_t>(method);
        const route where{text_of(said.exchange), text_of(said.routing_key)};
        returned_why_ = fmt::format("{} ({})", closing_words(said), words_of(where));
        returned_route_ = hash_of(where);
        returned_by_declared_ = options_.declare && where.exchange == options_.exchange;
        return returned_.begin();
    }
    case AMQP_CHANNEL_FLOW_METHOD:
        return on.put(messages_channel, AMQP_CHANNEL_FLOW_OK_METHOD,
                      amqp_channel_flow_ok_t{as<amqp_channel_flow_t>(method).active});
    case AMQP_CHANNEL_CLOSE_METHOD: return channel_closed(on, as<amqp_channel_close_t>(method));
    case AMQP_CHANNEL_CLOSE_OK_METHOD:
        returned_ = {};
        if (std::exchange(renewing_, false))
            open_channel(on);
        return;
    default: return;
    }
}

void publisher::take_returned()
{
    const auto whole = returned_.take();
    const auto id = message_id::parse(whole.message_id);
    if (id && !core::ignores_returns)
        window_.give_back(*id, returned_route_,
                          returned_why_ +
                              (returned_by_declared_ ? why_not_declared(options_.exchange) : ""));
    if (returned_by_declared_ && now() - declared_at_ >= missing_is_news_for)
        declare_again_ = true;
}

// A message that the broker objects to closes the channel, and it does not say which one. If there
// is one only, it is that; else those in question are sent again, each alone. Those of which the
// broker had said nothing may arrive twice, as after any interruption.
void publisher::channel_closed(wire& on, const amqp_channel_close_t& said)
{
    on.put(messages_channel, AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t{});
    if (renewing_) // both sides close it at the same time; ours is still to be answered
        return;
    const std::string words = closing_words(said);
    if (is_missing(said))
        exchanges_.clear();
    const bool found = window_.size() == 1;
    const auto is_named = [&](const window::flight& each) {
        return names_exchange(words, route_of(each.from->at(each.which)).exchange);
    };
    auto flights = window_.drain();
    const bool some_are_named = std::ranges::any_of(flights, is_named);
    for (auto each = flights.rbegin(); each != flights.rend(); ++each) {
        if (found)
            each->from->settle(each->which, answer_of(said));
        else if (!some_are_named || is_named(*each)) {
            each->from->doubt_arrival(each->which); // the second sending may never leave
            isolated_.emplace_front(each->from, each->which);
        } else
            each->from->again(each->which, batch::doubt::some);
    }
    alone_ = false;
    returned_ = {};
    open_channel(on);
}

void publisher::take_questions(wire& on, const amqp_method_t& method)
{
    switch (method.id) {
    case AMQP_EXCHANGE_DECLARE_OK_METHOD:
        if (declaring_) {
            exchanges_[options_.exchange] = {.missing = {}, .since = now()};
            return options_.declare->queue.empty() ? end_declaring(on, {}) : declare_queue(on);
        }
        exchanges_[std::exchange(asked_for_, {})] = {.missing = {}, .since = now()};
        return changed_.notify_all();
    case AMQP_QUEUE_DECLARE_OK_METHOD:
        return options_.exchange.empty() ? end_declaring(on, {}) : bind_queue(on);
    case AMQP_QUEUE_BIND_OK_METHOD: return end_declaring(on, {});
    case AMQP_CHANNEL_CLOSE_METHOD: {
        const auto& said = as<amqp_channel_close_t>(method);
        if (declaring_) {
            on.put(questions_channel, AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t{});
            on.put(questions_channel, AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t{});
            return end_declaring(on, closing_words(said));
        }
        // Who may not ask may be allowed to publish all the same.
        exchanges_[std::exchange(asked_for_, {})] = {
            .missing = is_missing(said) ? closing_words(said) : "", .since = now()};
        changed_.notify_all();
        on.put(questions_channel, AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t{});
        return on.put(questions_channel, AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t{});
    }
    default: return;
    }
}

} // namespace posthorn::rabbitmq

namespace posthorn {

void check_rabbitmq(const rabbitmq_options& options)
{
    rabbitmq::check_options(options);
    (void)rabbitmq::addresses_of(options.url);
}

std::shared_ptr<transport> open_rabbitmq(rabbitmq_options options, environment around)
{
    return std::make_shared<rabbitmq::publisher>(std::move(options), std::move(around));
}

} // namespace posthorn
