// Reports come in bundles, and each bundle takes the lock of a call once.
#include "transport/kafka/producer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t headers_allowance = std::size_t{72} << 10U;
constexpr std::size_t topics_kept_max = 1'000;

constexpr int hurry_ms = 1;

// How long one question to the brokers may take; whoever ends a producer may have to wait for it.
constexpr auto probe_length = 500ms;

// Questions that fail at once are not repeated at once.
constexpr auto probe_pause = 50ms;

configuration producer_configuration(const kafka_options& options, client_context& context,
                                     producer::company how)
{
    configuration conf(options.url, options.access, context);
    // A topic that does not exist is found out within the time that a call usually has.
    conf.set("topic.metadata.propagation.max.ms", "5000");
    // And one that is made or allowed later is found out soon.
    conf.set("topic.metadata.refresh.interval.ms", "10000");
    conf.set("partitioner", "murmur2_random"); // as Java's clients do
    conf.set_all(options.settings);
    conf.set("enable.idempotence", "true");
    conf.set("acks", "all");
    conf.set("message.timeout.ms", "0"); // calls have limits, and take back what was not sent
    conf.set("message.max.bytes", std::to_string(options.payload_bytes_max + headers_allowance));
    conf.set("linger.ms",
             fmt::format("{}", std::chrono::duration<double, std::milli>(
                                   how == producer::company::alone ? duration{} : options.linger)
                                   .count()));
    if (how == producer::company::alone)
        conf.set("batch.num.messages", "1");
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    return conf;
}

} // namespace

mailbox::mailbox(std::size_t messages) : stamps(messages)
{
    for (std::size_t i = 0; i < messages; ++i)
        stamps[i] = {.to = this, .index = i};
}

recipient::~recipient()
{
    const std::lock_guard lock(mailbox_->mutex);
    if (mailbox_->received == sent_)
        return;
    mailbox_->expected = sent_;
    mailbox_->self = mailbox_;
}

void producer::check(const kafka_options& options)
{
    client_context nobody;
    (void)producer_configuration(options, nobody, company::many);
}

producer::producer(const kafka_options& options, std::shared_ptr<const environment> surroundings,
                   company how)
    : context_{.surroundings = std::move(surroundings), .owner = this},
      how_(how),
      where_(brokers_of(options.url))
{
    auto conf = producer_configuration(options, context_, how);
    if (const auto alone = options.settings.find("batch.num.messages");
        alone != options.settings.end() && alone->second == "1")
        how_ = company::alone;
    client_ = std::move(conf).make(RD_KAFKA_PRODUCER);
    queue_.reset(rd_kafka_queue_get_main(client_.get()));
    listener_ = std::jthread([this] { listen(); });
    prober_ = std::jthread([this] { probe(); });
}

producer::~producer()
{
    // Every message gets its report, so that no mailbox waits for ever.
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        changed_.notify_all();
    }
    rd_kafka_queue_yield(queue_.get());
    listener_.join();
    prober_.join();
    topics_.clear();
}

producer::topic_handle producer::topic(const std::string& name)
{
    const std::lock_guard lock(mutex_);
    if (const auto found = topics_.find(name); found != topics_.end())
        return found->second;
    if (topics_.size() >= topics_kept_max)
        topics_.clear(); // the client knows them without our handles
    topic_handle made(rd_kafka_topic_new(client_.get(), name.c_str(), nullptr),
                      [](rd_kafka_topic_t* which) {
                          if (which)
                              rd_kafka_topic_destroy(which);
                      });
    if (made)
        topics_.emplace(name, made);
    return made;
}

rd_kafka_resp_err_t producer::send(const letter& what, mailbox::stamp& stamp)
{
    const auto where = topic(what.topic);
    if (!where)
        return rd_kafka_last_error();
    headers_handle named(rd_kafka_headers_new(what.envelope.size()));
    for (const auto& [name, value] : what.envelope)
        rd_kafka_header_add(named.get(), name.data(), static_cast<ssize_t>(name.size()),
                            value.data(), static_cast<ssize_t>(value.size()));
    std::array<rd_kafka_vu_t, 6> parts{};
    parts[0].vtype = RD_KAFKA_VTYPE_RKT;
    parts[0].u.rkt = where.get();
    parts[1].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    parts[1].u.i = RD_KAFKA_MSG_F_COPY;
    parts[2].vtype = RD_KAFKA_VTYPE_VALUE;                       // copied, never written to
    parts[2].u.mem.ptr = const_cast<char*>(what.payload.data()); // NOLINT
    parts[2].u.mem.size = what.payload.size();
    parts[3].vtype = RD_KAFKA_VTYPE_OPAQUE;
    parts[3].u.ptr = &stamp;
    parts[4].vtype = RD_KAFKA_VTYPE_HEADERS;
    parts[4].u.headers = named.get();
    parts[5].vtype = RD_KAFKA_VTYPE_KEY;
    parts[5].u.mem.ptr = const_cast<char*>(what.key.data()); // NOLINT
    parts[5].u.mem.size = what.key.size();
    const auto used = what.key.empty() ? parts.size() - 1 : parts.size();
    const error_handle failed(rd_kafka_produceva(client_.get(), parts.data(), used));
    if (failed)
        return rd_kafka_error_code(failed.get());
    (void)named.release(); // the message's now
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void producer::hurry()
{
    // Wakes the threads of the brokers, and lets them send while it lasts; nothing more is needed.
    rd_kafka_flush(client_.get(), hurry_ms);
}

void producer::purge_queue()
{
    // A broker's thread that looks up a name does not keep us waiting.
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

bool producer::is_broken() const
{
    std::array<char, 8> ignored{};
    return rd_kafka_fatal_error(client_.get(), ignored.data(), ignored.size()) !=
           RD_KAFKA_RESP_ERR_NO_ERROR;
}

void producer::doubt()
{
    const std::lock_guard lock(mutex_);
    connected_ = false;
    ++doubts_;
}

bool producer::wait_until_connected(const time_limit& how_long, const std::atomic<bool>& enough)
{
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all(); // the prober
    const auto is_settled = [&] { return connected_ || enough; };
    if (how_long.until)
        changed_.wait_until(lock, how_long.stop, *how_long.until, is_settled);
    else
        changed_.wait(lock, how_long.stop, is_settled);
    --waiting_;
    return connected_ && !enough;
}

void producer::wake()
{
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
}

void producer::probe()
{
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return ending_ || (waiting_ > 0 && !connected_); });
        if (ending_)
            return;
        const auto doubts = doubts_;
        lock.unlock();
        const rd_kafka_metadata_t* answer = nullptr;
        const auto failed = rd_kafka_metadata(client_.get(), 0, nullptr, &answer,
                                              std::chrono::milliseconds(probe_length).count());
        if (answer)
            rd_kafka_metadata_destroy(answer);
        lock.lock();
        if (failed) {
            changed_.wait_for(lock, probe_pause, [&] { return ending_.load(); });
            continue;
        }
        if (doubts != doubts_)
            continue;
        connected_ = true;
        trouble_.clear();
        const bool is_back = std::exchange(lost_, false);
        changed_.notify_all();
        if (is_back && context_.surroundings->log) {
            lock.unlock();
            context_.surroundings->log(log_level::info,
                                       fmt::format("kafka {}: connected again", where_));
            lock.lock();
        }
    }
}

std::string producer::trouble() const
{
    const std::lock_guard lock(mutex_);
    return trouble_;
}

void producer::listen()
{
    const auto next = [&](int wait_ms) {
        const event_handle event(rd_kafka_queue_poll(queue_.get(), wait_ms));
        if (!event)
            return false;
        switch (rd_kafka_event_type(event.get())) {
        case RD_KAFKA_EVENT_DR: hand_out(*event); break;
        case RD_KAFKA_EVENT_ERROR: hear(*event); break;
        default: break;
        }
        return true;
    };
    while (!ending_)
        next(10'000);
    next(0); // whoever ends us has woken us, and that counts as one
    while (next(0)) {}
}

void producer::hand_out(rd_kafka_event_t& reports) const
{
    std::array<const rd_kafka_message_t*, 256> some{};
    while (const auto many = rd_kafka_event_message_array(&reports, some.data(), some.size())) {
        for (std::size_t i = 0; i < many;) {
            const auto to =
                static_cast<mailbox::stamp*>(some.at(i)->_private)->to->shared_from_this();
            std::shared_ptr<mailbox> last; // destroyed after its lock
            const std::lock_guard lock(to->mutex);
            for (; i < many; ++i) {
                const auto& stamp = *static_cast<mailbox::stamp*>(some.at(i)->_private);
                if (stamp.to != to.get())
                    break;
                ++to->received;
                to->arrived.push_back({.index = stamp.index,
                                       .error = some.at(i)->err,
                                       .status = rd_kafka_message_status(some.at(i))});
            }
            if (to->self && to->received == to->expected)
                last = std::move(to->self);
            to->changed.notify_all();
        }
    }
}

void producer::hear(rd_kafka_event_t& trouble)
{
    const auto code = rd_kafka_event_error(&trouble);
    const bool all_are_down = code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
    bool tell = false;
    {
        const std::lock_guard lock(mutex_);
        if (!all_are_down || trouble_.empty())
            trouble_ = rd_kafka_event_error_string(&trouble);
        if (all_are_down) {
            connected_ = false;
            ++doubts_;
            tell = !std::exchange(lost_, true);
        }
        tell =
            tell || code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__FATAL;
    }
    if (tell && context_.surroundings->log)
        context_.surroundings->log(log_level::warning,
                                   fmt::format("kafka {}: {}", where_, this->trouble()));
}

} // namespace posthorn::kafka
