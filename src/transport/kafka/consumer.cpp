// All callbacks come on the thread that receives, so the feed needs no lock.
#include "transport/kafka/consumer.hpp"

#include "transport/envelope.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stop_token>
#include <string_view>

namespace posthorn {
namespace kafka {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view refused_header = "posthorn-refused";
constexpr std::size_t reason_bytes_max = 1'000;
constexpr auto commit_again_after = 1s;
constexpr auto refuse_within = 10s;
constexpr auto refuse_again_after = 1s;
constexpr auto look_again_after = 50ms; // whether we were closed meanwhile
constexpr auto wait_most = 10s;

monotonic_time present()
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
}

void check_feed(const kafka_feed_options& options)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, why);
    };
    if (options.topics.empty())
        refuse("a Kafka feed needs topics: say at least one");
    for (const auto& each : options.topics)
        if (!is_topic(each))
            refuse(fmt::format("'{}' is no topic of Kafka: those have 1 to 249 letters, digits, "
                               "dots, underscores and hyphens",
                               each));
    if (options.group.empty())
        refuse("a Kafka feed needs a group: those of one group share the messages");
    if (!is_topic(options.refused_suffix + "x"))
        refuse("refused_suffix has what no topic of Kafka can have");
    if (options.refused_suffix.empty())
        refuse("refused_suffix is empty: refused messages would come again at once");
}

configuration consumer_configuration(const kafka_feed_options& options, client_context& context)
{
    configuration conf(options.url, options.access, context);
    conf.set_all(options.settings);
    conf.set("group.id", options.group);
    conf.set("enable.auto.commit", "false");
    conf.set("enable.auto.offset.store", "false");
    conf.set("auto.offset.reset",
             options.start == kafka_feed_options::start_at::earliest ? "earliest" : "latest");
    return conf;
}

std::string text_of(const void* from, std::size_t size)
{
    return from ? std::string(static_cast<const char*>(from), size) : std::string();
}

headers headers_of(const rd_kafka_message_t& what)
{
    headers result;
    rd_kafka_headers_t* found = nullptr;
    if (rd_kafka_message_headers(&what, &found) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return result;
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0;
         rd_kafka_header_get_all(found, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i)
        result.insert_or_assign(name, text_of(value, size)); // of one name the last is valid
    return result;
}

} // namespace

consumer::consumer(kafka_feed_options options, environment surroundings)
    : options_(std::move(options)),
      context_{.surroundings = std::make_shared<const environment>(std::move(surroundings)),
               .owner = this},
      name_(fmt::format("kafka {} {}", brokers_of(options_.url), fmt::join(options_.topics, ",")))
{
    auto conf = consumer_configuration(options_, context_);
    rd_kafka_conf_set_rebalance_cb(conf.get(), &consumer::on_rebalance);
    rd_kafka_conf_set_offset_commit_cb(conf.get(), &consumer::on_commit);
    rd_kafka_conf_set_error_cb(conf.get(), &consumer::on_error);
    client_ = std::move(conf).make(RD_KAFKA_CONSUMER);
    rd_kafka_poll_set_consumer(client_.get());
    queue_.reset(rd_kafka_queue_get_consumer(client_.get()));
    const partitions_handle topics(
        rd_kafka_topic_partition_list_new(static_cast<int>(options_.topics.size())));
    for (const auto& each : options_.topics)
        rd_kafka_topic_partition_list_add(topics.get(), each.c_str(), RD_KAFKA_PARTITION_UA);
    if (const auto failed = rd_kafka_subscribe(client_.get(), topics.get()))
        throw error(error_code::invalid_argument,
                    fmt::format("cannot subscribe: {}", rd_kafka_err2str(failed)));
}

consumer::~consumer()
{
    if (commit_again_)
        commit();
    rd_kafka_consumer_close(client_.get()); // waits for commits, and leaves the group
    tickets_.clear();
    lanes_.clear(); // a client waits for its messages
}

std::vector<fed_message> consumer::receive(std::size_t at_most, const time_limit& how_long)
{
    const std::stop_callback wake(how_long.stop, [this] { rd_kafka_queue_yield(queue_.get()); });
    std::vector<fed_message> result;
    while (!closed_ && at_most > 0) {
        if (commit_again_ && present() >= *commit_again_)
            commit();
        take_what_is_due(result, at_most);
        take_what_comes(result, at_most, result.empty() ? wait_for(how_long) : 0);
        if (!result.empty() || is_over(how_long))
            break;
    }
    return result;
}

bool consumer::is_over(const time_limit& how_long) const
{
    return how_long.stop.stop_requested() || (how_long.until && present() >= *how_long.until);
}

// In milliseconds, as the client wants it.
int consumer::wait_for(const time_limit& how_long) const
{
    const auto now = present();
    auto until = now + wait_most;
    if (how_long.until)
        until = std::min(until, *how_long.until);
    if (commit_again_)
        until = std::min(until, *commit_again_);
    for (const auto& [where, each] : lanes_)
        if (each.is_held())
            until = std::min(until, each.held_until());
    if (how_long.stop.stop_requested() || until <= now)
        return 0;
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(until - now).count());
}

void consumer::take_what_is_due(std::vector<fed_message>& into, std::size_t at_most)
{
    for (auto& [where, each] : lanes_) {
        while (into.size() < at_most && each.is_held() && each.held_until() <= present()) {
            const auto* next = each.take_next();
            if (!next)
                break;
            into.push_back(open(*next, where));
        }
        if (each.is_paused && !each.is_held())
            pause(each, false);
    }
}

void consumer::take_what_comes(std::vector<fed_message>& into, std::size_t at_most, int wait_ms)
{
    while (into.size() < at_most) {
        message_handle got(rd_kafka_consumer_poll(client_.get(), wait_ms));
        if (!got)
            return;
        if (got->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            say(log_level::warning, rd_kafka_message_errstr(got.get()));
            continue;
        }
        place where(rd_kafka_topic_name(got->rkt), got->partition);
        auto& of = lanes_.try_emplace(where, where.first, where.second).first->second;
        const auto offset = got->offset;
        const bool must_wait = of.is_held();
        const auto& what = of.hand_out(std::move(got));
        if (must_wait) // it was under way when its partition was paused
            of.put_back(offset, of.held_until());
        else
            into.push_back(open(what, where));
        if (!into.empty())
            wait_ms = 0;
    }
}

fed_message consumer::open(const rd_kafka_message_t& what, const place& where)
{
    auto result =
        transports::opened(headers_of(what), text_of(what.payload, what.len),
                           {.id = fmt::format("{}/{}/{}", where.first, where.second, what.offset),
                            .topic = where.first,
                            .key = text_of(what.key, what.key_len)},
                           transports::kafka_attributes);
    result.ticket = ++last_ticket_;
    tickets_.emplace(result.ticket, handed_out{.where = where, .offset = what.offset});
    return result;
}

std::optional<consumer::handed_out> consumer::take_ticket(std::uint64_t which)
{
    const auto found = tickets_.find(which);
    if (found == tickets_.end())
        return std::nullopt; // its partition has gone to somebody else meanwhile
    auto result = std::move(found->second);
    tickets_.erase(found);
    return result;
}

lane* consumer::lane_at(const place& where)
{
    const auto found = lanes_.find(where);
    return found == lanes_.end() ? nullptr : &found->second;
}

void consumer::acknowledge(std::span<const std::uint64_t> tickets)
{
    bool has_grown = false;
    for (const auto each : tickets)
        if (const auto what = take_ticket(each))
            if (auto* of = lane_at(what->where))
                has_grown = of->finish(what->offset) || has_grown;
    if (has_grown)
        commit();
}

void consumer::commit()
{
    commit_again_.reset();
    const partitions_handle list(
        rd_kafka_topic_partition_list_new(static_cast<int>(lanes_.size())));
    for (auto& [where, each] : lanes_)
        if (each.position() && each.committed != each.position()) {
            rd_kafka_topic_partition_list_add(list.get(), where.first.c_str(), where.second)
                ->offset = *each.position();
            each.committed = each.position();
        }
    if (list->cnt == 0)
        return;
    if (const auto failed = rd_kafka_commit(client_.get(), list.get(), 1))
        committed(failed, list.get());
}

void consumer::committed(rd_kafka_resp_err_t result, rd_kafka_topic_partition_list_t* which)
{
    if (!which)
        return;
    for (int i = 0; i < which->cnt; ++i) {
        const auto& each = which->elems[i];
        auto* of = lane_at({each.topic, each.partition});
        const auto failed = result ? result : each.err;
        if (!of || failed == RD_KAFKA_RESP_ERR_NO_ERROR || of->committed != each.offset)
            continue; // or there is a later one
        of->committed.reset();
        commit_again_ = present() + commit_again_after;
        say(log_level::warning,
            fmt::format("cannot commit, which is tried again: {}", rd_kafka_err2str(failed)));
    }
}

void consumer::pause(lane& which, bool pausing)
{
    const partitions_handle one(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(one.get(), which.topic().c_str(), which.partition());
    which.is_paused = pausing;
    if (pausing)
        rd_kafka_pause_partitions(client_.get(), one.get());
    else
        rd_kafka_resume_partitions(client_.get(), one.get());
}

void consumer::put_back(const handed_out& what, monotonic_time when)
{
    auto* of = lane_at(what.where);
    if (!of)
        return;
    if (!of->is_held())
        pause(*of, true);
    of->put_back(what.offset, when);
}

void consumer::give_back(std::span<const std::uint64_t> tickets, duration pause)
{
    for (const auto each : tickets)
        if (const auto what = take_ticket(each))
            put_back(*what, present() + pause);
}

producer& consumer::refused()
{
    if (refused_ && !refused_->is_broken())
        return *refused_;
    kafka_options how{.url = options_.url, .access = options_.access};
    how.payload_bytes_max = 100'000'000; // whatever has come was taken before
    for (const auto& [name, value] : options_.settings)
        if (name.starts_with("ssl.") || name.starts_with("sasl.") ||
            name.starts_with("security.") || name.starts_with("topic.metadata."))
            how.settings.emplace(name, value);
    refused_ = std::make_unique<producer>(how, context_.surroundings, producer::company::many);
    return *refused_;
}

void consumer::refuse(std::span<const std::uint64_t> tickets, const std::string& reason)
{
    auto& writer = refused(); // before a ticket is taken: without it nothing is refused
    std::vector<handed_out> all;
    for (const auto each : tickets) {
        auto what = take_ticket(each);
        const auto* of = what ? lane_at(what->where) : nullptr;
        if (of && of->find(what->offset)) // else it has come twice, and one was acknowledged
            all.push_back(std::move(*what));
    }
    if (all.empty())
        return;
    recipient answers(all.size());
    std::vector<rd_kafka_resp_err_t> results(all.size(), RD_KAFKA_RESP_ERR__TIMED_OUT);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto& what = *lane_at(all[i].where)->find(all[i].offset);
        auto named = headers_of(what);
        named.insert_or_assign(std::string(refused_header), reason.substr(0, reason_bytes_max));
        results[i] = writer.send({.topic = all[i].where.first + options_.refused_suffix,
                                  .key = text_of(what.key, what.key_len),
                                  .payload = text_of(what.payload, what.len),
                                  .envelope = named},
                                 answers->stamps[i]);
        if (!results[i]) {
            answers.expect_one_more();
            results[i] = RD_KAFKA_RESP_ERR__TIMED_OUT;
        }
    }
    {
        std::unique_lock lock(answers->mutex);
        for (const auto until = present() + refuse_within;
             answers->received < answers.sent() && !closed_ && present() < until;)
            answers->changed.wait_for(lock, look_again_after);
        for (const auto& each : answers->arrived)
            results[each.index] = each.error;
    }
    bool has_grown = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!results[i]) {
            has_grown = lane_at(all[i].where)->finish(all[i].offset) || has_grown;
            continue;
        }
        say(log_level::warning,
            fmt::format("cannot write to {}{}, so it comes again: {}", all[i].where.first,
                        options_.refused_suffix, rd_kafka_err2str(results[i])));
        put_back(all[i], present() + refuse_again_after);
    }
    if (has_grown)
        commit();
}

void consumer::close()
{
    closed_ = true;
    rd_kafka_queue_yield(queue_.get());
}

void consumer::say(log_level level, const std::string& what) const
{
    if (context_.surroundings->log)
        context_.surroundings->log(level, fmt::format("{}: {}", name_, what));
}

void consumer::rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t& which)
{
    const char* protocol = rd_kafka_rebalance_protocol(client_.get()); // none while it closes
    const bool piecemeal = protocol && std::string_view(protocol) == "COOPERATIVE";
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        lost_ = false;
        if (piecemeal)
            error_handle(rd_kafka_incremental_assign(client_.get(), &which));
        else
            rd_kafka_assign(client_.get(), protocol ? &which : nullptr);
        rd_kafka_resume_partitions(client_.get(), &which); // whatever we paused before
        return;
    }
    // What is not acknowledged comes to whoever gets the partition, and maybe that is us.
    for (int i = 0; i < which.cnt; ++i) {
        const place gone(which.elems[i].topic, which.elems[i].partition);
        std::erase_if(tickets_, [&](const auto& each) { return each.second.where == gone; });
        lanes_.erase(gone);
    }
    if (piecemeal)
        error_handle(rd_kafka_incremental_unassign(client_.get(), &which));
    else
        rd_kafka_assign(client_.get(), nullptr);
}

void consumer::on_rebalance(rd_kafka_t* /*client*/, rd_kafka_resp_err_t what,
                            rd_kafka_topic_partition_list_t* which, void* self)
{
    client_context::owner_of<consumer>(self).rebalance(what, *which);
}

void consumer::on_commit(rd_kafka_t* /*client*/, rd_kafka_resp_err_t result,
                         rd_kafka_topic_partition_list_t* which, void* self)
{
    client_context::owner_of<consumer>(self).committed(result, which);
}

void consumer::on_error(rd_kafka_t* /*client*/, int code, const char* why, void* self)
{
    auto& that = client_context::owner_of<consumer>(self);
    const bool is_lost = code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !that.lost_;
    that.lost_ = that.lost_ || is_lost;
    if (is_lost || code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__FATAL)
        that.say(log_level::warning, why);
}

} // namespace kafka

void check_kafka_feed(const kafka_feed_options& options)
{
    kafka::check_feed(options);
    kafka::client_context nobody;
    (void)kafka::consumer_configuration(options, nobody);
}

std::unique_ptr<feed> open_kafka_feed(kafka_feed_options options, environment surroundings)
{
    kafka::check_feed(options);
    return std::make_unique<kafka::consumer>(std::move(options), std::move(surroundings));
}

} // namespace posthorn
