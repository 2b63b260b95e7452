// The direct publisher: settles where each message comes from, then sends it.
#include "core/lineage.hpp"
#include "core/validation.hpp"
#include <posthorn/error.hpp>
#include <posthorn/publisher.hpp>

#include <algorithm>
#include <utility>

namespace posthorn {
namespace {

struct prepared_message {
    transport_message message;
    bool numbered = false;

    // The last thing it gets: what was refused before has taken no number.
    void number(core::drawn_numbers& numbers)
    {
        if (numbered)
            message.headers.insert_or_assign(std::string(header::correlation_sequence),
                                             numbers.draw());
    }
};

prepared_message prepared(const message& what, const publish_options& given,
                          const correlation* scope, const limits& bounds, const environment& world)
{
    auto values = given.headers;
    const auto from = core::resolve_lineage({.id = given.id,
                                             .correlation_id = given.correlation_id,
                                             .causation_id = given.causation_id},
                                            values, scope, core::id_maker::publisher, world);
    core::check_message(what,
                        {.id = from.id,
                         .ordering_key = given.key,
                         .correlation_id = from.correlation_id,
                         .causation_id = from.causation_id,
                         .headers = values},
                        bounds);
    return {.message = {.id = *from.id,
                        .topic = what.topic,
                        .key = given.key,
                        .destination = given.destination,
                        .headers = core::wire_headers(from, *from.id, std::move(values)),
                        .payload = what.payload},
            .numbered = from.numbered};
}

// How much fits is for the transport to say, in its answer.
constexpr limits no_limits{.payload_bytes_max = SIZE_MAX, .headers_bytes_max = SIZE_MAX};

} // namespace

direct_publisher::direct_publisher(std::shared_ptr<transport> to, posthorn::environment world)
    : to_(std::move(to)), world_(std::move(world))
{
    if (!to_)
        throw error(error_code::invalid_argument, "a direct publisher needs a transport");
}

published direct_publisher::publish(const message& what, const publish_options& how,
                                    const time_limit& how_long)
{
    const auto scope = correlation_scope::current();
    auto sent = prepared(what, how, scope.get(), no_limits, world_);
    core::drawn_numbers numbers(scope);
    sent.number(numbers);
    published result{to_->publish({&sent.message, 1}, how_long).at(0), sent.message.id};
    if (result.verdict == publish_answer::kind::refused)
        numbers.give_back();
    return result;
}

std::vector<published> direct_publisher::publish(std::span<const direct_message> messages,
                                                 const time_limit& how_long)
{
    const auto scope = correlation_scope::current();
    std::vector<prepared_message> all;
    all.reserve(messages.size());
    for (const auto& [what, how] : messages)
        all.push_back(prepared(what, how, scope.get(), no_limits, world_));
    core::drawn_numbers numbers(scope);
    std::vector<transport_message> sent;
    sent.reserve(messages.size());
    for (auto& each : all) {
        each.number(numbers);
        sent.push_back(std::move(each.message));
    }
    const auto step = std::max<std::size_t>(to_->capabilities().batch_max, 1);
    std::vector<published> result;
    result.reserve(sent.size());
    for (std::size_t from = 0; from < sent.size(); from += step) {
        const auto piece = std::span<const transport_message>(sent).subspan(
            from, std::min(step, sent.size() - from));
        auto answers = to_->publish(piece, how_long);
        for (std::size_t i = 0; i < piece.size(); ++i)
            result.push_back({std::move(answers.at(i)), piece[i].id});
    }
    // From the last one on, as long as they were refused: a gap before others cannot be closed.
    for (auto i = result.size(); i-- > 0;) {
        if (!all[i].numbered)
            continue;
        if (result[i].verdict != publish_answer::kind::refused)
            break;
        numbers.give_back_last();
    }
    return result;
}

} // namespace posthorn
