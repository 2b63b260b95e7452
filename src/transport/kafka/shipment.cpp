// Sends, listens, and decides what a report means.
#include "transport/kafka/shipment.hpp"

#include "core/planted.hpp"
#include "core/trace_context.hpp"
#include "transport/envelope.hpp"
#include "transport/kafka/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;

// How long what is taken back may take to come back.
constexpr auto recall_within = 40ms;

// How long nobody looks whether the queue has room again, unless a report comes.
constexpr auto full_queue_pause = 10ms;

monotonic_time moment()
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
}

headers envelope_for(const transport_message& what, std::string_view source)
{
    auto result = transports::envelope_of(what, transports::kafka_attributes, source);
    // Kafka compares names byte for byte, and CloudEvents writes this one so.
    if (auto type = std::string(core::find_header(result, transports::content_type_header));
        !type.empty() && !result.contains(transports::content_type_header)) {
        core::erase_header(result, transports::content_type_header);
        result.emplace(transports::content_type_header, std::move(type));
    }
    return result;
}

} // namespace

shipment::shipment(const kafka_options& options, producer_source producers,
                   std::span<const transport_message> what, const time_limit& how_long)
    : options_(options),
      producers_(std::move(producers)),
      what_(what),
      how_long_(how_long),
      mailbox_(what.size()),
      answers_(what.size()),
      is_alone_(what.size()),
      is_out_(what.size())
{}

std::vector<publish_answer> shipment::run()
{
    for (std::size_t i = 0; i < what_.size(); ++i)
        begin(i);
    send_what_is_ready();
    while ((reported_ < mailbox_.sent() || !ready_.empty()) && !is_over()) {
        wait_for_reports();
        send_what_is_ready();
    }
    if (reported_ < mailbox_.sent())
        give_up();
    send_what_is_ready(); // or say that there is no time for it
    std::vector<publish_answer> result;
    result.reserve(answers_.size());
    for (auto& each : answers_)
        result.push_back(std::move(each).value());
    return result;
}

const std::string& shipment::topic_of(const transport_message& what) const
{
    if (!what.destination.empty())
        return what.destination;
    return options_.topic.empty() ? what.topic : options_.topic;
}

std::string shipment::about(const transport_message& what, std::string_view why) const
{
    return fmt::format("topic '{}': {}", topic_of(what), why);
}

std::optional<publish_answer> shipment::objection(const transport_message& what) const
{
    if (!is_topic(topic_of(what)))
        return publish_answer::no(
            refusal::malformed,
            about(what, "Kafka's topics have 1 to 249 letters, digits, dots, underscores and "
                        "hyphens"));
    if (what.payload.size() > options_.payload_bytes_max)
        return publish_answer::no(
            refusal::too_large,
            about(what, fmt::format("the payload is {} bytes long; at most {} are carried",
                                    what.payload.size(), options_.payload_bytes_max)));
    return std::nullopt;
}

bool shipment::is_over()
{
    over_ = over_ || how_long_.stop.stop_requested() ||
            (how_long_.until && moment() >= *how_long_.until);
    return over_;
}

// For what was not sent.
publish_answer shipment::not_in_time()
{
    const auto& where = many_ ? many_ : alone_;
    if (!where)
        return publish_answer::no(refusal::busy, "there was no time left");
    const auto trouble = where->trouble();
    if (is_full_ && trouble.empty())
        return publish_answer::no(refusal::busy, "there was no room in the queue in time");
    where->doubt();
    return publish_answer::no(refusal::unavailable,
                              trouble.empty() ? "it could not be sent in time"
                                              : "it could not be sent in time: " + trouble);
}

void shipment::begin(std::size_t index)
{
    const auto& key = what_[index].key;
    if (!key.empty()) {
        auto& of = chains_[key];
        if (of.is_busy)
            return of.waiting.push_back(index);
        of.is_busy = true;
    }
    ready_.push_back({.index = index});
}

void shipment::send_what_is_ready()
{
    while (!ready_.empty()) {
        const auto next = ready_.front();
        is_full_ = !send(next);
        if (is_full_)
            break;
        ready_.pop_front();
    }
    if (mailbox_.sent() > hurried_ && !over_)
        for (const auto& each : {many_, alone_})
            if (each)
                each->hurry();
    hurried_ = mailbox_.sent();
}

bool shipment::send(const turn& which)
{
    const auto index = which.index;
    const auto& what = what_[index];
    if (auto no = objection(what)) {
        settle(index, std::move(*no));
        return true;
    }
    const auto envelope = envelope_for(what, options_.source);
    while (true) {
        if (is_over()) {
            settle(index, not_in_time());
            return true;
        }
        auto& by = which.how == producer::company::many ? many_ : alone_;
        if (!by || by->is_broken())
            by = producers_(which.how);
        const auto failed = by->send({.topic = topic_of(what),
                                      .key = what.key,
                                      .payload = what.payload,
                                      .envelope = envelope},
                                     mailbox_->stamps[index]);
        if (failed == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            return false;
        if (failed == RD_KAFKA_RESP_ERR_NO_ERROR) {
            mailbox_.expect_one_more();
            is_out_[index] = true;
            is_alone_[index] = by->how() == producer::company::alone;
            return true;
        }
        if (!by->is_broken()) {
            settle(index,
                   publish_answer::no(refusal_for(failed), about(what, rd_kafka_err2str(failed))));
            return true;
        }
    }
}

void shipment::settle(std::size_t index, publish_answer answer)
{
    const bool accepted = answer.accepted();
    answers_[index] = std::move(answer);
    const auto& key = what_[index].key;
    if (key.empty())
        return;
    auto& of = chains_[key];
    if (!accepted) { // and stays busy: nothing else of it is sent
        for (const auto waiting : of.waiting)
            answers_[waiting] = publish_answer::no(refusal::held_back);
        of.waiting.clear();
    } else if (!of.waiting.empty()) {
        const auto next = of.waiting.front();
        of.waiting.pop_front();
        ready_.push_back({.index = next});
    }
}

void shipment::look_at(const delivery_report& report)
{
    const auto index = report.index;
    const auto& what = what_[index];
    is_out_[index] = false;
    ++reported_;
    if (report.error == RD_KAFKA_RESP_ERR_NO_ERROR ||
        report.status == RD_KAFKA_MSG_STATUS_PERSISTED || core::trusts_the_flush)
        return settle(index, publish_answer::yes());
    const auto why = rd_kafka_err2str(report.error);
    if (report.status == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED) {
        (is_alone_[index] && alone_ ? alone_ : many_)->doubt();
        return settle(index, publish_answer::no_answer(about(what, why)));
    }
    const bool recalled = report.error == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
                          report.error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
                          report.error == RD_KAFKA_RESP_ERR__FATAL;
    if (recalled && is_over())
        return settle(index, not_in_time());
    if (recalled) // for another call whose time was over, or because the producer broke
        return ready_.push_back({index, is_alone_[index] && alone_ ? producer::company::alone
                                                                   : producer::company::many});
    if (!is_alone_[index] && may_blame_another(report.error))
        return ready_.push_back({index, producer::company::alone});
    settle(index, publish_answer::no(refusal_for(report.error), about(what, why)));
}

void shipment::wait_for_reports()
{
    auto until = moment() + (is_full_ ? duration(full_queue_pause) : duration(1h));
    if (how_long_.until)
        until = std::min(until, *how_long_.until);
    std::vector<delivery_report> some;
    {
        std::unique_lock lock(mailbox_->mutex);
        mailbox_->changed.wait_until(lock, how_long_.stop, until,
                                     [&] { return !mailbox_->arrived.empty(); });
        some.swap(mailbox_->arrived);
    }
    for (const auto& each : some)
        look_at(each);
}

// What has not been sent comes back as such, and nobody knows of the rest.
void shipment::give_up()
{
    over_ = true;
    for (const auto& each : {many_, alone_})
        if (each)
            each->purge_queue();
    const auto until = moment() + recall_within;
    std::vector<delivery_report> some;
    while (reported_ < mailbox_.sent() && moment() < until) {
        {
            std::unique_lock lock(mailbox_->mutex);
            mailbox_->changed.wait_until(lock, until, [&] { return !mailbox_->arrived.empty(); });
            some.swap(mailbox_->arrived);
        }
        for (const auto& each : some)
            look_at(each);
        some.clear();
    }
    {
        const std::lock_guard lock(mailbox_->mutex);
        some.swap(mailbox_->arrived);
    }
    for (const auto& each : some)
        look_at(each);
    for (std::size_t i = 0; i < what_.size(); ++i)
        if (is_out_[i]) {
            (is_alone_[i] && alone_ ? alone_ : many_)->doubt();
            settle(i, publish_answer::no_answer(about(what_[i], "there was no answer in time")));
        }
}

} // namespace posthorn::kafka
