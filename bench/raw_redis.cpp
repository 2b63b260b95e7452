// hiredis: XADD in a pipeline.
#include "bench/raw_brokers.hpp"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <stdexcept>

namespace bench {
namespace {

class raw_redis final : public raw_broker {
public:
    raw_redis(const std::string& url, std::string stream)
        : db_(connected(url), &redisFree), stream_(std::move(stream))
    {}

    void clear() override
    {
        add({"DEL", stream_});
        read();
    }

    void send(const raw_message& what, const std::vector<std::string>& ids) override
    {
        std::vector<std::string> words{"XADD", stream_, "*", "posthorn-msg-id", ""};
        for (const auto& [name, value] : what.headers) {
            words.push_back(name);
            words.push_back(value);
        }
        words.emplace_back("payload");
        words.push_back(what.payload);
        for (std::size_t from = 0; from < ids.size(); from += raw_window) {
            const auto count = std::min(raw_window, ids.size() - from);
            for (std::size_t i = 0; i < count; ++i) {
                words[4] = ids[from + i];
                add(words);
            }
            for (std::size_t i = 0; i < count; ++i)
                read();
        }
    }

private:
    static redisContext* connected(const std::string& url)
    {
        const auto host = url.find("//") + 2;
        const auto port = url.rfind(':');
        auto* const db =
            redisConnect(url.substr(host, port - host).c_str(), std::stoi(url.substr(port + 1)));
        if (db == nullptr || db->err != 0)
            throw std::runtime_error("Redis is away");
        return db;
    }

    void add(const std::vector<std::string>& words)
    {
        std::vector<const char*> texts;
        std::vector<std::size_t> sizes;
        for (const auto& each : words) {
            texts.push_back(each.data());
            sizes.push_back(each.size());
        }
        redisAppendCommandArgv(db_.get(), static_cast<int>(texts.size()), texts.data(),
                               sizes.data());
    }

    void read()
    {
        void* reply = nullptr;
        if (redisGetReply(db_.get(), &reply) != REDIS_OK)
            throw std::runtime_error(db_->errstr);
        const std::unique_ptr<void, void (*)(void*)> owned(reply, &freeReplyObject);
        if (static_cast<redisReply*>(reply)->type == REDIS_REPLY_ERROR)
            throw std::runtime_error(static_cast<redisReply*>(reply)->str);
    }

    std::unique_ptr<redisContext, void (*)(redisContext*)> db_;
    std::string stream_;
};

} // namespace

std::unique_ptr<raw_broker> open_raw_redis(const std::string& url, const std::string& stream)
{
    return std::make_unique<raw_redis>(url, stream);
}

} // namespace bench
