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
constexpr std::int16_t metadata_api = 3;

// A response that comes so long after a doubt answers a request that was sent after it.
constexpr auto stale_after = 200ms;

monotonic_time steady_now()
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
}

configuration producer_configuration(const kafka_options& options, const environment& surroundings,
                                     producer::company how)
{
    configuration conf(options.url, options.access, surroundings);
    // A topic that does not exist is found out within the time that a call usually has.
    conf.set("topic.metadata.propagation.max.ms", "5000");
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

producer::producer(const kafka_options& options, std::shared_ptr<const environment> surroundings,
                   company how)
    : surroundings_(std::move(surroundings)),
      how_(how),
      where_(brokers_of(options.url)),
      doubt_since_(steady_now())
{
    auto conf = producer_configuration(options, *surroundings_, how);
    if (const auto alone = options.settings.find("batch.num.messages");
        alone != options.settings.end() && alone->second == "1")
        how_ = company::alone;
    rd_kafka_conf_interceptor_add_on_new(conf.get(), "posthorn", &producer::on_new, this);
    client_ = std::move(conf).make(RD_KAFKA_PRODUCER);
    queue_.reset(rd_kafka_queue_get_main(client_.get()));
    listener_ = std::jthread([this] { listen(); });
}

producer::~producer()
{
    // Every message gets its report, so that no mailbox waits for ever.
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    ending_ = true;
    rd_kafka_queue_yield(queue_.get());
    listener_.join();
    topics_.clear();
}

rd_kafka_resp_err_t producer::on_new(rd_kafka_t* client, const rd_kafka_conf_t* /*conf*/,
                                     void* self, char* /*why*/, std::size_t /*why_size*/)
{
    return rd_kafka_interceptor_add_on_response_received(client, "posthorn", &producer::on_response,
                                                         self);
}

rd_kafka_resp_err_t producer::on_response(rd_kafka_t* /*client*/, int /*socket*/,
                                          const char* /*broker*/, std::int32_t /*broker_id*/,
                                          std::int16_t api, std::int16_t /*version*/,
                                          std::int32_t /*correlation*/, std::size_t /*size*/,
                                          std::int64_t /*rtt*/, rd_kafka_resp_err_t failure,
                                          void* self)
{
    auto& that = *static_cast<producer*>(self);
    if (api != metadata_api || failure != RD_KAFKA_RESP_ERR_NO_ERROR)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    const std::lock_guard lock(that.mutex_);
    if (steady_now() >= that.doubt_since_ + stale_after)
        that.connected_ = true;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
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

bool producer::is_connected() const
{
    const std::lock_guard lock(mutex_);
    return connected_;
}

void producer::doubt()
{
    const std::lock_guard lock(mutex_);
    connected_ = false;
    doubt_since_ = steady_now();
}

void producer::probe(duration at_most)
{
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
    const rd_kafka_metadata_t* answer = nullptr;
    const auto failed = rd_kafka_metadata(client_.get(), 0, nullptr, &answer,
                                          static_cast<int>(std::max<long>(1, milliseconds)));
    if (answer)
        rd_kafka_metadata_destroy(answer);
    if (failed == RD_KAFKA_RESP_ERR_NO_ERROR)
        heard_of_broker();
}

void producer::heard_of_broker()
{
    bool is_back = false;
    {
        const std::lock_guard lock(mutex_);
        connected_ = true;
        is_back = std::exchange(lost_, false);
        trouble_.clear();
    }
    if (is_back && surroundings_->log)
        surroundings_->log(log_level::info, fmt::format("kafka {}: connected again", where_));
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
            doubt_since_ = steady_now();
            tell = !std::exchange(lost_, true);
        }
        tell =
            tell || code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__FATAL;
    }
    if (tell && surroundings_->log)
        surroundings_->log(log_level::warning,
                           fmt::format("kafka {}: {}", where_, this->trouble()));
}

} // namespace posthorn::kafka
