// hiredis as it is meant to be used by people who may wait.
#include "transport/redis/client.hpp"

#include "transport/envelope.hpp"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>

namespace posthorn::transports {
namespace {

struct deleter {
    void operator()(redisReply* which) const { freeReplyObject(which); }
};

std::unique_ptr<redisReply, deleter> reply_to(redisContext* of,
                                              const std::vector<std::string>& command)
{
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const auto& each : command) {
        texts.push_back(each.data());
        sizes.push_back(each.size());
    }
    std::unique_ptr<redisReply, deleter> result(static_cast<redisReply*>(
        redisCommandArgv(of, static_cast<int>(command.size()), texts.data(), sizes.data())));
    if (result == nullptr)
        throw std::runtime_error(of->errstr);
    if (result->type == REDIS_REPLY_ERROR)
        throw std::runtime_error(std::string(result->str, result->len));
    return result;
}

void gather(const redisReply& from, std::vector<std::string>& into)
{
    if (from.type == REDIS_REPLY_INTEGER)
        into.push_back(std::to_string(from.integer));
    else if (from.type == REDIS_REPLY_ARRAY)
        for (std::size_t i = 0; i < from.elements; ++i)
            gather(*from.element[i], into);
    else if (from.str != nullptr)
        into.emplace_back(from.str, from.len);
}

} // namespace

std::string unique_stream()
{
    static std::atomic<int> count = 0;
    return fmt::format("t{}x{}", ::getpid(), ++count);
}

std::uint16_t shared_redis_port()
{
    const char* port = std::getenv("POSTHORN_TEST_REDIS_PORT");
    if (port == nullptr)
        throw std::runtime_error("POSTHORN_TEST_REDIS_PORT is not set: start tools/servers.sh");
    return static_cast<std::uint16_t>(std::stoi(port));
}

redis_client::redis_client(std::uint16_t port) : of_(redisConnect("127.0.0.1", port))
{
    if (of_ == nullptr || of_->err != 0)
        throw std::runtime_error("no connection to Redis");
}

redis_client::~redis_client()
{
    redisFree(of_);
}

std::vector<std::string> redis_client::ask(const std::vector<std::string>& command)
{
    std::vector<std::string> result;
    gather(*reply_to(of_, command), result);
    return result;
}

std::size_t redis_client::length(const std::string& stream)
{
    return std::stoul(ask({"XLEN", stream}).at(0));
}

std::vector<transport_message> redis_client::contents(const std::string& stream)
{
    const auto all = reply_to(of_, {"XRANGE", stream, "-", "+"});
    std::vector<transport_message> result;
    for (std::size_t i = 0; i < all->elements; ++i) {
        std::vector<std::string> fields;
        gather(*all->element[i]->element[1], fields);
        headers names;
        for (std::size_t at = 0; at + 2 < fields.size(); at += 2)
            names.emplace(fields[at], fields[at + 1]);
        auto seen = opened(std::move(names), fields.back(), {}, no_attributes);
        result.push_back({.id = message_id::parse(seen.id).value_or(message_id{}),
                          .topic = seen.topic,
                          .key = seen.key,
                          .destination = stream,
                          .headers = std::move(seen.headers),
                          .payload = std::move(seen.payload)});
    }
    return result;
}

} // namespace posthorn::transports
