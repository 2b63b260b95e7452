// Receive, store, then acknowledge: in this order, whatever breaks in between.
#include "feeds/stored_as.hpp"
#include "store/contract/run_again.hpp"
#include <posthorn/error.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/inbox.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

constexpr duration pause_min = 100ms;
constexpr duration pause_max = 5s;

// What no waiting will cure: the store is not what it should be.
bool is_hopeless(const error& why)
{
    switch (why.code()) {
    case error_code::invalid_argument:
    case error_code::schema_missing:
    case error_code::schema_newer:
    case error_code::schema_foreign:
    case error_code::schema_outdated:
    case error_code::corrupt:
    case error_code::unsupported:
    case error_code::internal: return true;
    default: return false;
    }
}

// One batch in the making. It may be stored several times, until a transaction commits.
class sorting {
public:
    sorting(const std::vector<fed_message>& brought, const feed_options& how,
            const environment& world)
        : brought_(brought), how_(how), world_(world)
    {}

    void store_all(transaction& tx)
    {
        report_ = {};
        accepted_.clear();
        refused_.clear();
        for (const auto& each : brought_)
            store_one(tx, each);
    }

    void answer(feed& to) const
    {
        if (!accepted_.empty())
            to.acknowledge(accepted_);
        for (const auto& [ticket, reason] : refused_)
            to.refuse({&ticket, 1}, reason);
    }

    [[nodiscard]] const feed_report& report() const noexcept { return report_; }
    [[nodiscard]] const auto& refused() const noexcept { return refused_; }

private:
    void store_one(transaction& tx, const fed_message& which)
    {
        try {
            const auto receipt =
                enqueue_inbound(tx, {.source = how_.source, .id = which.id},
                                {topic_of(which), which.payload}, stored_as(which, world_));
            const bool is_new = receipt.answer == inbox_answer::added;
            ++(is_new ? report_.stored : report_.repeated);
            accepted_.push_back(which.ticket);
        } catch (const error& why) {
            // Nothing was written for it, so the others go on in the same transaction.
            if (why.code() != error_code::invalid_argument)
                throw;
            ++report_.refused;
            refused_.emplace_back(which.ticket, why.what());
        }
    }

    [[nodiscard]] const std::string& topic_of(const fed_message& which) const
    {
        return how_.topic_wins || which.topic.empty() ? how_.topic : which.topic;
    }

    const std::vector<fed_message>& brought_;
    const feed_options& how_;
    const environment& world_;
    feed_report report_;
    std::vector<std::uint64_t> accepted_;
    std::vector<std::pair<std::uint64_t, std::string>> refused_;
};

void wait(duration length, const std::stop_token& stop)
{
    std::mutex mutex;
    std::unique_lock guard(mutex);
    std::condition_variable_any never;
    never.wait_for(guard, stop, length, [] { return false; });
}

std::vector<std::uint64_t> tickets_of(const std::vector<fed_message>& which)
{
    std::vector<std::uint64_t> result;
    for (const auto& each : which)
        result.push_back(each.ticket);
    return result;
}

void check(const feed_options& how)
{
    if (how.source.empty())
        throw error(error_code::invalid_argument,
                    "a feed needs a source: the inbox's name for whoever sends");
    if (how.batch == 0)
        throw error(error_code::invalid_argument, "a feed's batch must be at least 1");
    if (how.topic_wins && how.topic.empty())
        throw error(error_code::invalid_argument, "topic_wins needs a topic");
    if (how.keep_for < duration::zero())
        throw error(error_code::invalid_argument, "a feed's keep_for cannot be negative");
}

// Brings batches home, one after the other.
class porter {
public:
    porter(store where, feed& from, const feed_options& how, std::stop_token stop)
        : where_(std::move(where)),
          world_(where_.environment()),
          from_(from),
          how_(how),
          stop_(std::move(stop))
    {}

    feed_report run()
    {
        while (!stop_.stop_requested()) {
            const auto brought = from_.receive(how_.batch, {.stop = stop_});
            if (brought.empty())
                break; // told to stop, or closed
            bring_home(brought);
        }
        return sum_;
    }

private:
    // Tries again with the same messages for a while: what was given back could be overtaken.
    void bring_home(const std::vector<fed_message>& brought)
    {
        const auto keep_until = world_.clock->monotonic() + how_.keep_for;
        while (!is_stored(brought)) {
            const bool keeps =
                !stop_.stop_requested() && world_.clock->monotonic() + pause_ < keep_until;
            if (!keeps)
                from_.give_back(tickets_of(brought), pause_);
            wait(pause_, stop_);
            pause_ = std::min(pause_ * 2, pause_max);
            if (!keeps)
                return;
        }
        pause_ = pause_min;
    }

    // False: not now. If it is in doubt whether they are stored: what comes again is known.
    bool is_stored(const std::vector<fed_message>& brought)
    {
        sorting batch(brought, how_, world_);
        try {
            contract::run_again(world_, [&] {
                auto tx = where_.begin();
                batch.store_all(tx);
                tx.commit();
            });
        } catch (const error& why) {
            if (is_hopeless(why)) {
                from_.give_back(tickets_of(brought), pause_);
                throw;
            }
            say(log_level::warning,
                fmt::format("what {} brought cannot be stored now, it is tried again: {}",
                            from_.name(), why.what()));
            count({.failures = 1});
            return false;
        }
        batch.answer(from_);
        for (const auto& [ticket, reason] : batch.refused())
            say(log_level::error, fmt::format("{} brought a message that cannot be stored: {}",
                                              from_.name(), reason));
        count(batch.report());
        return true;
    }

    void count(const feed_report& done)
    {
        sum_ += done;
        if (how_.progress)
            how_.progress(done);
    }

    void say(log_level level, const std::string& line) const
    {
        if (world_.log)
            world_.log(level, line);
    }

    store where_;
    const environment& world_;
    feed& from_;
    const feed_options& how_;
    std::stop_token stop_;
    duration pause_ = pause_min;
    feed_report sum_;
};

} // namespace

feed_report feed_inbox(store where, feed& from, const feed_options& how, std::stop_token stop)
{
    check(how);
    return porter(std::move(where), from, how, std::move(stop)).run();
}

} // namespace posthorn
