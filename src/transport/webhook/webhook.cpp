// The transport as callers see it: it prepares messages on their threads, and lets another send.
#include "transport/webhook/webhook.hpp"

#include "transport/envelope.hpp"
#include "transport/webhook/sender.hpp"
#include "transport/webhook/signature.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

namespace posthorn {
namespace transports {
namespace {

using namespace std::chrono_literals;

constexpr duration question_pause_min = 50ms; // between two looks whether somebody is there
constexpr duration question_pause_max = 1s;

// So long may the usual endpoint keep those waiting whose messages may be for others.
constexpr duration question_span_max = 5s;

[[noreturn]] void refuse_option(const std::string& why)
{
    throw error(error_code::invalid_argument, "webhook: " + why);
}

void check_span(std::string_view name, duration given)
{
    if (given <= duration::zero() || given > limits::span_max)
        refuse_option(fmt::format("{} must be longer than nothing", name));
}

void check_options(const webhook_options& given)
{
    check_span("connect_within", given.connect_within);
    check_span("answer_within", given.answer_within);
    check_span("pause_min", given.pause_min);
    check_span("retry_after_max", given.retry_after_max);
    if (given.pause_max < given.pause_min || given.pause_max > limits::span_max)
        refuse_option("pause_max must not be shorter than pause_min");
    if (given.parallel == 0 || given.parallel_per_endpoint == 0 || given.failures_max == 0)
        refuse_option("parallel, parallel_per_endpoint and failures_max must be at least 1");
    if (given.payload_bytes_max == 0 || given.payload_bytes_max > std::size_t{1} << 30U)
        refuse_option("payload_bytes_max must be from 1 byte to 1 GiB");
    if (!is_http_value(given.content_type) || !is_http_value(given.user_agent))
        refuse_option("content_type and user_agent must be printable ASCII");
    if (given.source.empty())
        refuse_option("source must not be empty: CloudEvents asks for one");
    const auto lines = to_http(given.headers);
    if (!lines.problem.empty())
        refuse_option(lines.problem);
    for (const auto& [name, value] : given.headers)
        if (!is_http_value(value))
            refuse_option(fmt::format("the header '{}' must be printable ASCII", name));
    if (given.url.empty() && !given.headers.empty())
        refuse_option("headers are for the host of url, which is not given");
    if (given.key_file.empty() != given.certificate_file.empty())
        refuse_option("certificate_file and key_file are given together, or neither");
}

transfer_setting setting_of(webhook_options options, name_lookup lookup)
{
    auto keys = secret_bytes(options.secrets);
    address_guard guard(options.allow_private);
    return {.options = std::move(options),
            .keys = std::move(keys),
            .guard = std::move(guard),
            .lookup = std::move(lookup),
            .usual_endpoint = {}};
}

class webhook_transport final : public transport {
public:
    webhook_transport(transfer_setting with, std::shared_ptr<const webhook_target> usual,
                      environment world)
        : usual_(std::move(usual)), world_(world), sender_(std::move(with), std::move(world))
    {}

    using transport::close;
    using transport::publish;

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& how_long) override
    {
        if (what.empty())
            return {};
        const visit inside(*this);
        if (!inside.is_allowed)
            return std::vector(what.size(), publish_answer::no(refusal::closed));
        webhook_batch batch;
        prepare(batch, what);
        batch.until = how_long.until;
        if (batch.open > 0)
            sender_.send(batch, how_long.stop);
        return std::move(batch.answers);
    }

    bool wait_until_ready(const time_limit& how_long) override
    {
        auto pause = question_pause_min;
        const auto enough = std::chrono::steady_clock::now() + question_span_max;
        while (!is_over(how_long)) {
            if (!usual_ || std::chrono::steady_clock::now() >= enough)
                return true;
            const auto [is_there, again_in] = ask(how_long);
            if (is_there)
                return !is_closed();
            auto rest = std::min(again_in.value_or(pause), question_pause_max);
            rest = duration{static_cast<duration::rep>(static_cast<double>(rest.count()) *
                                                       (0.5 + world_.random->fraction() / 2))};
            pause = std::min(pause * 2, question_pause_max);
            wait(how_long, rest, [this] { return closed_; });
        }
        return false;
    }

    void close(const time_limit& how_long) override
    {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
            changed_.notify_all();
        }
        wait(how_long, std::nullopt, [this] { return publishing_ == 0; });
    }

    transport_capabilities capabilities() const override
    {
        return {.payload_bytes_max = sender_.setting().options.payload_bytes_max,
                .batch_max = 500,
                .confirms = true,
                .reports_unroutable = true,
                .keeps_order = true};
    }

    std::string name() const override
    {
        return usual_ ? "webhook " + usual_->shown : std::string("webhook");
    }

private:
    struct visit {
        explicit visit(webhook_transport& to) : of(to)
        {
            const std::lock_guard lock(of.mutex_);
            is_allowed = !of.closed_;
            of.publishing_ += is_allowed ? 1 : 0;
        }
        visit(const visit&) = delete;
        visit& operator=(const visit&) = delete;
        ~visit()
        {
            if (!is_allowed)
                return;
            const std::lock_guard lock(of.mutex_);
            --of.publishing_;
            of.changed_.notify_all();
        }

        webhook_transport& of;
        bool is_allowed = false;
    };

    [[nodiscard]] bool is_closed()
    {
        const std::lock_guard lock(mutex_);
        return closed_;
    }

    [[nodiscard]] bool is_over(const time_limit& how_long)
    {
        return is_closed() || how_long.stop.stop_requested() ||
               (how_long.until && std::chrono::steady_clock::now() >= *how_long.until);
    }

    template <typename Condition>
    void wait(const time_limit& how_long, std::optional<duration> at_most, Condition condition)
    {
        auto until = how_long.until;
        if (at_most) {
            const auto then =
                std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now() + *at_most);
            until = std::min(until.value_or(then), then);
        }
        std::unique_lock lock(mutex_);
        if (until)
            (void)changed_.wait_until(lock, how_long.stop, *until, condition);
        else
            (void)changed_.wait(lock, how_long.stop, condition);
    }

    // Whether somebody is there, and else when to ask again.
    std::pair<bool, std::optional<duration>> ask(const time_limit& how_long)
    {
        webhook_batch question;
        question.asks_for = usual_;
        question.open = 1;
        question.until = how_long.until;
        sender_.send(question, how_long.stop);
        return {question.is_there, question.ask_again_in};
    }

    void prepare(webhook_batch& batch, std::span<const transport_message> what)
    {
        batch.messages = what;
        batch.entries.resize(what.size());
        batch.answers.resize(what.size());
        std::set<std::string_view> stuck;
        std::map<std::string_view, target_reading> read; // of this batch
        for (std::size_t i = 0; i < what.size(); ++i) {
            const auto& key = what[i].key;
            auto& entry = batch.entries[i];
            auto& answer = batch.answers[i];
            if (stuck.contains(key))
                answer = publish_answer::no(refusal::held_back);
            else if (prepare(entry, what[i], answer, read)) {
                ++batch.open;
                if (!key.empty())
                    batch.keys[key].push_back(i);
                continue;
            }
            entry.answered = true;
            if (!key.empty())
                stuck.insert(key);
        }
    }

    // False: `answer` says why it cannot be sent.
    bool prepare(webhook_batch::entry& entry, const transport_message& what, publish_answer& answer,
                 std::map<std::string_view, target_reading>& read)
    {
        const auto& how = sender_.setting().options;
        if (what.payload.size() > how.payload_bytes_max) {
            answer = publish_answer::no(
                refusal::too_large, fmt::format("the payload is {} bytes long; at most {} are sent",
                                                what.payload.size(), how.payload_bytes_max));
            return false;
        }
        if (what.destination.empty()) {
            entry.target = usual_;
            answer = publish_answer::no(
                refusal::unroutable,
                fmt::format("the message of the topic '{}' names no URL, and there is no other",
                            what.topic));
        } else {
            auto [at, is_new] = read.try_emplace(what.destination);
            if (is_new)
                at->second = read_target(what.destination, sender_.setting().guard);
            entry.target = at->second.target;
            answer = at->second.instead;
        }
        if (!entry.target)
            return false;
        auto lines = to_http(envelope_of(what, http_attributes, how.source));
        if (!lines.problem.empty()) {
            answer = publish_answer::no(refusal::malformed, std::move(lines.problem));
            return false;
        }
        entry.lines = std::move(lines.lines);
        return true;
    }

    const std::shared_ptr<const webhook_target> usual_; // shared with batches
    const environment world_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::size_t publishing_ = 0;
    bool closed_ = false;
    sender sender_; // last: it ends first
};

struct opening {
    transfer_setting setting;
    std::shared_ptr<const webhook_target> usual;
};

opening opening_of(webhook_options options, name_lookup lookup)
{
    check_options(options);
    auto setting = setting_of(std::move(options), std::move(lookup));
    std::shared_ptr<const webhook_target> usual;
    if (const auto& url = setting.options.url; !url.empty()) {
        auto reading = read_target(url, setting.guard);
        if (!reading.target)
            refuse_option(fmt::format("the url cannot be used: {}", reading.instead.detail));
        usual = std::move(reading.target);
        setting.usual_endpoint = usual->endpoint;
    }
    return {.setting = std::move(setting), .usual = std::move(usual)};
}

} // namespace

std::shared_ptr<transport> open_webhook_with(webhook_options options, environment world,
                                             name_lookup lookup)
{
    auto with = opening_of(std::move(options), std::move(lookup));
    return std::make_shared<webhook_transport>(std::move(with.setting), std::move(with.usual),
                                               std::move(world));
}

} // namespace transports

void check_webhook(const webhook_options& options)
{
    (void)transports::opening_of(options, {});
}

std::shared_ptr<transport> open_webhook(webhook_options options, environment world)
{
    return transports::open_webhook_with(std::move(options), std::move(world), {});
}

} // namespace posthorn
