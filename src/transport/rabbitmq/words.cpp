// Codes and sentences of RabbitMQ, which are part of what it promises: it has no other way to say
// what was wrong with a message.
#include "transport/rabbitmq/words.hpp"

#include <fmt/format.h>

#include <functional>

namespace posthorn::rabbitmq {
namespace {

constexpr std::uint16_t not_found = 404;
constexpr std::uint16_t access_refused = 403;
constexpr std::uint16_t precondition_failed = 406;

} // namespace

std::size_t hash_of(const route& where)
{
    const std::hash<std::string_view> hash;
    return hash(where.exchange) * 31 + hash(where.routing_key);
}

std::string words_of(const route& where)
{
    return fmt::format("exchange '{}', routing key '{}'", where.exchange, where.routing_key);
}

bool names_exchange(std::string_view text, std::string_view exchange)
{
    return text.find(fmt::format("exchange '{}'", exchange)) != std::string_view::npos;
}

bool is_missing(const amqp_channel_close_t& said)
{
    return said.reply_code == not_found;
}

publish_answer answer_of(const amqp_channel_close_t& said)
{
    const auto words = closing_words(said);
    switch (said.reply_code) {
    case not_found: return publish_answer::no(refusal::unroutable, words);
    case access_refused: return publish_answer::no(refusal::denied, words);
    case precondition_failed:
        return publish_answer::no(words.find("message size") != std::string::npos
                                      ? refusal::too_large
                                      : refusal::malformed,
                                  words);
    default: return publish_answer::no(refusal::rejected, words);
    }
}

} // namespace posthorn::rabbitmq
