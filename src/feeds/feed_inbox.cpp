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
}

} // namespace

feed_report feed_inbox(store where, feed& from, const feed_options& how, std::stop_token stop)
{
    check(how);
    const auto& world = where.environment();
    const auto say = [&](log_level level, const std::string& line) {
        if (world.log)
            world.log(level, line);
    };
    feed_report sum;
    auto pause = pause_min;
    while (!stop.stop_requested()) {
        const auto brought = from.receive(how.batch, {.stop = stop});
        if (brought.empty())
            break; // told to stop, or closed
        sorting batch(brought, how, world);
        feed_report done;
        try {
            contract::run_again(world, [&] {
                auto tx = where.begin();
                batch.store_all(tx);
                tx.commit();
            });
            batch.answer(from);
            done = batch.report();
            pause = pause_min;
            for (const auto& [ticket, reason] : batch.refused())
                say(log_level::error, fmt::format("{} brought a message that cannot be stored: {}",
                                                  from.name(), reason));
        } catch (const error& why) {
            // If it is in doubt whether they are stored: what comes again is known.
            from.give_back(tickets_of(brought), pause);
            if (is_hopeless(why))
                throw;
            done = {.failures = 1};
            say(log_level::warning,
                fmt::format("what {} brought cannot be stored now, it will come again: {}",
                            from.name(), why.what()));
            wait(pause, stop);
            pause = std::min(pause * 2, pause_max);
        }
        sum += done;
        if (how.progress)
            how.progress(done);
    }
    return sum;
}

} // namespace posthorn
