// libnats: JetStream's asynchronous publishing.
#include "bench/raw_brokers.hpp"

#include <nats/nats.h>

#include <stdexcept>

namespace bench {
namespace {

void check(natsStatus status)
{
    if (status != NATS_OK)
        throw std::runtime_error(natsStatus_GetText(status));
}

class raw_nats final : public raw_broker {
public:
    raw_nats(const std::string& url, std::string stream) : stream_(std::move(stream))
    {
        natsConnection* db = nullptr;
        check(natsConnection_ConnectTo(&db, url.c_str()));
        db_.reset(db);
        jsOptions options;
        check(jsOptions_Init(&options));
        options.PublishAsync.MaxPending = 4 * raw_window; // with fewer it waits more than it sends
        jsCtx* js = nullptr;
        check(natsConnection_JetStream(&js, db, &options));
        js_.reset(js);
    }

    void clear() override
    {
        (void)js_DeleteStream(js_.get(), stream_.c_str(), nullptr, nullptr);
        jsStreamConfig config;
        check(jsStreamConfig_Init(&config));
        const char* subjects[] = {stream_.c_str()};
        config.Name = stream_.c_str();
        config.Subjects = subjects;
        config.SubjectsLen = 1;
        check(js_AddStream(nullptr, js_.get(), &config, nullptr, nullptr));
    }

    void send(const raw_message& what, const std::vector<std::string>& ids) override
    {
        for (const auto& id : ids) {
            natsMsg* message = nullptr;
            check(natsMsg_Create(&message, stream_.c_str(), nullptr, what.payload.data(),
                                 static_cast<int>(what.payload.size())));
            for (const auto& [name, value] : what.headers)
                check(natsMsgHeader_Set(message, name.c_str(), value.c_str()));
            jsPubOptions options;
            check(jsPubOptions_Init(&options));
            options.MsgId = id.c_str();
            check(js_PublishMsgAsync(js_.get(), &message, &options));
        }
        check(js_PublishAsyncComplete(js_.get(), nullptr));
    }

private:
    struct end {
        void operator()(natsConnection* which) const { natsConnection_Destroy(which); }
        void operator()(jsCtx* which) const { jsCtx_Destroy(which); }
    };

    std::string stream_;
    std::unique_ptr<natsConnection, end> db_;
    std::unique_ptr<jsCtx, end> js_;
};

} // namespace

std::unique_ptr<raw_broker> open_raw_nats(const std::string& url, const std::string& stream)
{
    return std::make_unique<raw_nats>(url, stream);
}

} // namespace bench
