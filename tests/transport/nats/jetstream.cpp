// libnats as it is meant to be used by people who may wait.
#include "transport/nats/jetstream.hpp"

#include "transport/envelope.hpp"

#include <fmt/format.h>
#include <nats/nats.h>

#include <atomic>
#include <cstdlib>
#include <list>
#include <set>
#include <stdexcept>
#include <unistd.h>

namespace posthorn::transports {
namespace {

void must(natsStatus status, const std::string& what)
{
    if (status != NATS_OK)
        throw std::runtime_error(
            fmt::format("{}: {} {}", what, natsStatus_GetText(status), nats_GetLastError(nullptr)));
}

headers headers_of(natsMsg* message)
{
    headers result;
    const char** keys = nullptr;
    int count = 0;
    if (natsMsgHeader_Keys(message, &keys, &count) != NATS_OK)
        return result;
    for (int i = 0; i < count; ++i) {
        const char* value = nullptr;
        if (natsMsgHeader_Get(message, keys[i], &value) == NATS_OK)
            result.emplace(keys[i], value);
    }
    std::free(keys); // NOLINT: libnats gave it
    return result;
}

} // namespace

std::string unique_name()
{
    static std::atomic<int> count = 0;
    return fmt::format("t{}x{}", ::getpid(), ++count);
}

std::uint16_t shared_nats_port()
{
    const char* port = std::getenv("POSTHORN_TEST_NATS_PORT");
    if (port == nullptr)
        throw std::runtime_error("POSTHORN_TEST_NATS_PORT is not set: start tools/servers.sh");
    return static_cast<std::uint16_t>(std::stoi(port));
}

struct jetstream::state {
    natsConnection* connection = nullptr;
    jsCtx* context = nullptr;
    std::set<std::string> streams;
    std::list<std::string> strangers; ///< what they say
    std::vector<natsSubscription*> subscriptions;
};

jetstream::jetstream(std::uint16_t port, const std::string& user)
    : state_(std::make_unique<state>())
{
    const auto url = fmt::format("nats://{}127.0.0.1:{}", user.empty() ? "" : user + "@", port);
    must(natsConnection_ConnectTo(&state_->connection, url.c_str()), "connect");
    must(natsConnection_JetStream(&state_->context, state_->connection, nullptr), "JetStream");
}

jetstream::~jetstream()
{
    for (const auto& each : state_->streams)
        js_DeleteStream(state_->context, each.c_str(), nullptr, nullptr);
    for (auto* each : state_->subscriptions)
        natsSubscription_Destroy(each);
    jsCtx_Destroy(state_->context);
    natsConnection_Close(state_->connection); // afterwards no stranger speaks
    natsConnection_Destroy(state_->connection);
}

void jetstream::leave_streams()
{
    state_->streams.clear();
}

void jetstream::set_stream(const std::string& name, const std::vector<std::string>& subjects,
                           limits bounds)
{
    std::vector<const char*> texts;
    for (const auto& each : subjects)
        texts.push_back(each.c_str());
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = name.c_str();
    config.Subjects = texts.data();
    config.SubjectsLen = static_cast<int>(texts.size());
    config.Discard = js_DiscardNew;
    config.MaxMsgs = bounds.messages_max;
    config.MaxBytes = bounds.bytes_max;
    config.MaxMsgSize = bounds.message_bytes_max;
    config.Replicas = bounds.replicas;
    config.Retention = bounds.is_work_queue ? js_WorkQueuePolicy : js_LimitsPolicy;
    const bool is_new = state_->streams.insert(name).second;
    jsErrCode code{};
    must(is_new ? js_AddStream(nullptr, state_->context, &config, nullptr, &code)
                : js_UpdateStream(nullptr, state_->context, &config, nullptr, &code),
         "stream " + name);
}

void jetstream::remove_stream(const std::string& name)
{
    state_->streams.erase(name);
    must(js_DeleteStream(state_->context, name.c_str(), nullptr, nullptr), "delete " + name);
}

std::int64_t jetstream::bytes_in(const std::string& stream)
{
    jsStreamInfo* info = nullptr;
    must(js_GetStreamInfo(&info, state_->context, stream.c_str(), nullptr, nullptr), stream);
    const auto result = static_cast<std::int64_t>(info->State.Bytes);
    jsStreamInfo_Destroy(info);
    return result;
}

std::size_t jetstream::messages_in(const std::string& stream)
{
    jsStreamInfo* info = nullptr;
    must(js_GetStreamInfo(&info, state_->context, stream.c_str(), nullptr, nullptr), stream);
    const auto result = static_cast<std::size_t>(info->State.Msgs);
    jsStreamInfo_Destroy(info);
    return result;
}

void jetstream::each_in(const std::string& stream, const std::function<void(natsMsg&)>& visit)
{
    jsStreamInfo* info = nullptr;
    must(js_GetStreamInfo(&info, state_->context, stream.c_str(), nullptr, nullptr), stream);
    const auto first = info->State.FirstSeq;
    const auto last = info->State.LastSeq;
    jsStreamInfo_Destroy(info);
    for (auto at = std::max<std::uint64_t>(first, 1); at <= last; ++at) {
        natsMsg* message = nullptr;
        if (js_GetMsg(&message, state_->context, stream.c_str(), at, nullptr, nullptr) != NATS_OK)
            continue;
        visit(*message);
        natsMsg_Destroy(message);
    }
}

std::vector<transport_message> jetstream::contents(const std::string& stream)
{
    std::vector<transport_message> result;
    each_in(stream, [&](natsMsg& message) {
        auto seen = opened(
            headers_of(&message),
            {natsMsg_GetData(&message), static_cast<std::size_t>(natsMsg_GetDataLength(&message))},
            {.topic = natsMsg_GetSubject(&message)}, nats_attributes);
        result.push_back({.id = message_id::parse(seen.id).value_or(message_id{}),
                          .topic = seen.topic,
                          .key = seen.key,
                          .destination = natsMsg_GetSubject(&message),
                          .headers = std::move(seen.headers),
                          .payload = std::move(seen.payload)});
    });
    return result;
}

std::vector<headers> jetstream::headers_in(const std::string& stream)
{
    std::vector<headers> result;
    each_in(stream, [&](natsMsg& message) { result.push_back(headers_of(&message)); });
    return result;
}

void jetstream::answer_as_a_stranger(const std::string& subject, const std::string& words)
{
    auto& kept = state_->strangers.emplace_back(words);
    natsSubscription* made = nullptr;
    must(natsConnection_Subscribe(
             &made, state_->connection, subject.c_str(),
             [](natsConnection* by, natsSubscription*, natsMsg* message, void* what) {
                 const auto& text = *static_cast<std::string*>(what);
                 natsConnection_Publish(by, natsMsg_GetReply(message), text.data(),
                                        static_cast<int>(text.size()));
                 natsMsg_Destroy(message);
             },
             &kept),
         subject);
    state_->subscriptions.push_back(made);
    must(natsConnection_Flush(state_->connection), subject);
}

void jetstream::publish(const std::string& subject, const std::string& payload,
                        const std::vector<std::pair<std::string, std::string>>& headers)
{
    natsMsg* message = nullptr;
    must(natsMsg_Create(&message, subject.c_str(), nullptr, payload.data(),
                        static_cast<int>(payload.size())),
         subject);
    for (const auto& [name, value] : headers)
        must(natsMsgHeader_Set(message, name.c_str(), value.c_str()), name);
    const auto status = js_PublishMsg(nullptr, state_->context, message, nullptr, nullptr);
    natsMsg_Destroy(message);
    must(status, subject);
}

std::uint64_t jetstream::unacknowledged(const std::string& stream, const std::string& consumer)
{
    jsConsumerInfo* info = nullptr;
    must(js_GetConsumerInfo(&info, state_->context, stream.c_str(), consumer.c_str(), nullptr,
                            nullptr),
         consumer);
    const auto result = static_cast<std::uint64_t>(info->NumAckPending);
    jsConsumerInfo_Destroy(info);
    return result;
}

std::uint64_t jetstream::requests_at(const std::string& stream, const std::string& consumer)
{
    jsConsumerInfo* info = nullptr;
    if (js_GetConsumerInfo(&info, state_->context, stream.c_str(), consumer.c_str(), nullptr,
                           nullptr) != NATS_OK)
        return 0; // it has not been made yet
    const auto result = static_cast<std::uint64_t>(info->NumWaiting);
    jsConsumerInfo_Destroy(info);
    return result;
}

std::uint64_t jetstream::acknowledged_up_to(const std::string& stream, const std::string& consumer)
{
    jsConsumerInfo* info = nullptr;
    must(js_GetConsumerInfo(&info, state_->context, stream.c_str(), consumer.c_str(), nullptr,
                            nullptr),
         consumer);
    const auto result = info->AckFloor.Stream;
    jsConsumerInfo_Destroy(info);
    return result;
}

void jetstream::set_consumer(const std::string& stream, const std::string& consumer,
                             duration ack_wait, std::int64_t batch_max)
{
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = consumer.c_str();
    config.AckPolicy = js_AckExplicit;
    config.AckWait = std::chrono::nanoseconds(ack_wait).count();
    config.MaxRequestBatch = batch_max;
    must(js_AddConsumer(nullptr, state_->context, stream.c_str(), &config, nullptr, nullptr),
         consumer);
}

void jetstream::remove_consumer(const std::string& stream, const std::string& consumer)
{
    must(js_DeleteConsumer(state_->context, stream.c_str(), consumer.c_str(), nullptr, nullptr),
         consumer);
}

} // namespace posthorn::transports
