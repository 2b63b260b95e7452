// The claiming side: arguments are checked here, outcomes
// become decisions here, and hooks run here.
#include "core/planted.hpp"
#include "core/settlement.hpp"
#include "core/topic_map.hpp"
#include "core/validation.hpp"
#include "outbox/in_transaction.hpp"
#include "outbox/lines_of_work.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/held_elsewhere.hpp"
#include "store/contract/hurry.hpp"
#include "store/contract/message_queue.hpp"
#include "store/contract/settlement_follower.hpp"
#include <posthorn/error.hpp>
#include <posthorn/outbox.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace posthorn {
namespace {

void check_owner(const owner& who)
{
    if (who.token.empty())
        throw error(error_code::invalid_argument,
                    "the owner's token is empty; make one with owner::create");
}

void check_lease(duration lease)
{
    if (lease <= duration::zero())
        throw error(error_code::invalid_argument, "the lease must be longer than zero");
    if (lease > limits::span_max)
        throw error(error_code::invalid_argument, "the lease is longer than a hundred years");
}

using positions_by_fence = std::map<fence, std::vector<std::size_t>>;

// Receipts may come from several batches; each batch is settled on its own.
template <typename Range, typename FenceOf>
positions_by_fence grouped(const Range& what, FenceOf fence_of)
{
    positions_by_fence result;
    for (std::size_t i = 0; i < what.size(); ++i)
        result[fence_of(what[i])].push_back(i);
    return result;
}

struct rules_of_topic {
    const retry_policy& retry;
    dead_key on_dead;
};

// A topic's handler comes first, then what the store's options say of the topic, then of all.
rules_of_topic rules_for(const outbox_options& options, std::string_view topic)
{
    const auto* own = options.of_handler ? options.of_handler(topic) : nullptr;
    const auto* on_dead = core::find_by_topic(options.on_dead_by_topic, topic);
    const bool has_retry = own != nullptr && own->retry;
    return {.retry = has_retry ? *own->retry : options.retries.of(topic),
            .on_dead = own != nullptr && own->on_dead ? *own->on_dead
                       : on_dead != nullptr           ? *on_dead
                                                      : options.on_dead};
}

// Turns outcomes into decisions. Only retries, and failures whose topic may have a rule of its own,
// need to know more about their message than the receipt says.
class decider {
public:
    decider(contract::message_queue& queue, const outbox_options& options, random_source& random)
        : queue_(queue), options_(options), random_(random)
    {}

    void learn(std::string_view owner, fence which, std::span<const receipt> retried)
    {
        for (auto& each : queue_.open_deliveries(owner, which, retried)) {
            const auto ordinal = each.receipt.ordinal;
            known_.insert_or_assign(ordinal, std::move(each));
        }
    }

    [[nodiscard]] bool asks_for(const outcome& said) const
    {
        const bool has_dead_rules = options_.of_handler || !options_.on_dead_by_topic.empty();
        return said.verdict == outcome::kind::retry ||
               (said.verdict == outcome::kind::fail && has_dead_rules);
    }

    core::decision decide(const settlement& what)
    {
        core::delivery_facts facts{.topic = {}, .starts_before = 0, .started = true};
        if (asks_for(what.outcome)) {
            const auto found = known_.find(what.receipt.ordinal);
            if (found == known_.end())
                return {.become = settled_as::released}; // not ours: the store will answer `lost`
            facts = {.topic = found->second.topic,
                     .starts_before = found->second.starts_before,
                     .started = found->second.started};
        }
        const auto rules = rules_for(options_, facts.topic);
        return core::decide(what.outcome, facts, rules.retry, rules.on_dead, random_.fraction());
    }

private:
    contract::message_queue& queue_;
    const outbox_options& options_;
    random_source& random_;
    std::map<std::uint32_t, contract::open_delivery> known_;
};

void run_hooks(transaction& tx, const outbox_options& options,
               std::span<const settled_message> changed)
{
    if (changed.empty())
        return;
    for (const auto& hook : options.hooks)
        hook(tx, changed);
}

// A known bug of others, for tests of the tests alone: see planted.hpp.
void count_lost_ones(contract::session& session, std::span<const settlement> what,
                     const settle_result& result)
{
    if constexpr (core::counts_the_lost)
        for (std::size_t i = 0; i < what.size(); ++i)
            if (result.answers[i] == settled_as::lost) {
                const contract::ended_message lost{.position = what[i].receipt.position};
                session.follower().ended({&lost, 1});
            }
}

// Settlement hooks throw what they like.
std::string reason_of(const std::exception_ptr& thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& failure) {
        return failure.what();
    } catch (...) {
        return "something that is not a std::exception was thrown";
    }
}

// Takes back all batches that are overdue, or of them one message only.
reap_report reap_batches(transaction& tx, std::size_t limit, const outbox_options& options,
                         const std::optional<receipt>& only, lines_of_work& lines)
{
    lines.begin();
    reap_report report;
    auto& session = tx.session();
    std::vector<settled_message> changed;
    contract::gathering ends(session.follower());
    for (const auto& overdue : session.queue().overdue_batches(limit)) {
        std::vector<contract::decided> all;
        for (const auto& each : overdue.open) {
            if (only && each.receipt.position != only->position) // its ordinal may have changed
                continue;
            const auto rules = rules_for(options, each.topic);
            all.push_back(
                {each.receipt, core::decide_for_absent({.topic = each.topic,
                                                        .starts_before = each.starts_before,
                                                        .started = each.started},
                                                       rules.retry, rules.on_dead,
                                                       session.environment().random->fraction())});
        }
        if (all.empty() && only)
            continue;
        const auto answers =
            session.queue().settle(overdue.owner, overdue.fence, all, options.keep_done);
        if (!only)
            lines.reaped(overdue);
        ++report.batches;
        report.released +=
            static_cast<std::size_t>(std::ranges::count(answers, settled_as::released));
        report.retrying +=
            static_cast<std::size_t>(std::ranges::count(answers, settled_as::retrying));
        report.dead += static_cast<std::size_t>(std::ranges::count(answers, settled_as::dead));
        for (std::size_t i = 0; i < answers.size(); ++i) {
            changed.push_back({.id = all[i].receipt.id, .answer = answers[i]});
            if (answers[i] == settled_as::dead)
                lines.dead(all[i].receipt.id);
        }
    }
    ends.follow();
    run_hooks(tx, options, changed);
    return report;
}

std::vector<receipt> overdue_messages(store& where, std::size_t limit)
{
    return in_work(where, [&](transaction& tx) {
        std::vector<receipt> result;
        for (const auto& overdue : tx.session().queue().overdue_batches(limit))
            for (const auto& each : overdue.open)
                result.push_back(each.receipt);
        return result;
    });
}

reap_report reap_one_by_one(store& where, std::size_t limit, const outbox_options& options)
{
    reap_report total;
    const auto cannot_take_back = [&](log_level level, message_id id, const std::string& why) {
        if (const auto& log = where.environment().log; log.takes(level))
            log(level, fmt::format("cannot take back message {}, whose lease has run out: {}",
                                   to_string(id), why));
    };
    lines_of_work lines(where.environment());
    for (const auto& each : overdue_messages(where, limit)) {
        try {
            const auto part = in_work(where, [&](transaction& tx) {
                return reap_batches(tx, limit, options, each, lines);
            });
            lines.tell();
            total.released += part.released;
            total.retrying += part.retrying;
            total.dead += part.dead;
        } catch (const contract::held_elsewhere& held) { // which passes
            cannot_take_back(log_level::warning, each.id, held.what());
        } catch (...) {
            cannot_take_back(log_level::error, each.id, reason_of(std::current_exception()));
        }
    }
    return total;
}

// Whether what was thrown is about one message, and the others can do without it.
bool concerns_one_message(const std::exception_ptr& thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const contract::held_elsewhere&) {
        return true;
    } catch (const error& failure) {
        return !failure.retryable() && !failure.in_doubt();
    } catch (...) { // of a settlement hook
        return true;
    }
}

settle_result settle_in(transaction& tx, const outbox_options& options, const owner& who,
                        std::span<const settlement> what, lines_of_work& lines)
{
    lines.begin();
    check_owner(who);
    settle_result result{std::vector<settled_as>(what.size(), settled_as::lost)};
    std::vector<settled_message> changed;
    auto& session = tx.session();
    auto& queue = session.queue();
    const auto by_fence = grouped(what, [](const settlement& s) { return s.receipt.fence; });
    contract::gathering ends(session.follower());
    for (const auto& [number, positions] : by_fence) {
        decider decisions(queue, options, *session.environment().random);
        std::vector<receipt> retried;
        for (const auto position : positions)
            if (decisions.asks_for(what[position].outcome))
                retried.push_back(what[position].receipt);
        if (!retried.empty())
            decisions.learn(who.token, number, retried);

        std::vector<contract::decided> group;
        group.reserve(positions.size());
        for (const auto position : positions)
            group.push_back({what[position].receipt, decisions.decide(what[position])});
        const auto part = queue.settle(who.token, number, group, options.keep_done);
        std::set<std::uint32_t> reported; // a receipt may stand twice in one call
        for (std::size_t i = 0; i < positions.size(); ++i) {
            result.answers[positions[i]] = part[i];
            const bool worth_telling = part[i] == settled_as::dead || !options.hooks.empty();
            if (part[i] == settled_as::lost || !worth_telling ||
                !reported.insert(group[i].receipt.ordinal).second)
                continue;
            changed.push_back({.id = group[i].receipt.id, .answer = part[i]});
            if (part[i] == settled_as::dead && options.log_deaths)
                lines.dead(group[i].receipt.id);
        }
    }
    count_lost_ones(session, what, result);
    ends.follow();
    run_hooks(tx, options, changed);
    return result;
}

bool are_done_in_one_batch(std::span<const settlement> what)
{
    return std::ranges::all_of(what, [&](const settlement& each) {
        return each.outcome.verdict == outcome::kind::done &&
               each.receipt.fence == what.front().receipt.fence;
    });
}

} // namespace

outbox::outbox(store where, outbox_options options)
    : store_(std::move(where)), options_(std::move(options))
{}

batch outbox::claim(const owner& who, const claim_options& how)
{
    check_owner(who);
    check_lease(how.lease);
    const auto limit_max = store_.backend().limits().batch_max;
    if (how.limit == 0 || how.limit > limit_max)
        throw error(
            error_code::invalid_argument,
            fmt::format("the limit of a claim is {}; it must be 1 to {}", how.limit, limit_max));
    for (;;) {
        auto claimed = contract::run_again(store_.environment(), [&] {
            return store_.backend().claim({.owner = who.token,
                                           .worker = who.worker,
                                           .lease = how.lease,
                                           .limit = how.limit,
                                           .start = how.start.value_or(how.limit),
                                           .unpark = how.unpark,
                                           .unpark_after = how.unpark_after});
        });
        // An empty answer means that nothing is due, so it must not come from bad rows alone.
        if (!set_unreadable_aside(who, claimed) || !claimed.empty())
            return claimed;
    }
}

// A row that cannot be read can never be handled, and one that only claims to come from outside
// must not be: it ends as dead, and the rest of its batch goes on. Returns: whether there was one
// and all of them are dead now.
bool outbox::set_unreadable_aside(const owner& who, batch& claimed)
{
    std::vector<settlement> unreadable;
    std::erase_if(claimed.deliveries, [&](const delivery& each) {
        auto why = core::why_not_handled(each.topic, each.headers);
        if (why.empty())
            return false;
        unreadable.push_back({each.receipt, posthorn::fail(std::move(why))});
        return true;
    });
    if (unreadable.empty())
        return false;
    try {
        const auto settled = settle(who, unreadable);
        // A worker that tells of deaths itself never sees these.
        lines_of_work lines(store_.environment());
        for (std::size_t i = 0; i < unreadable.size() && !options_.log_deaths; ++i)
            if (settled.answers[i] == settled_as::dead)
                lines.dead(unreadable[i].receipt.id);
        lines.tell();
        return settled.lost() == 0;
    } catch (const error& failure) {
        // The others are claimed and must reach their handlers. When the lease of these has run
        // out, they are taken back and come here again.
        if (const auto& log = store_.environment().log)
            log(log_level::error, fmt::format("cannot set {} unreadable messages aside: {}",
                                              unreadable.size(), failure.what()));
        return false;
    }
}

std::vector<start_answer> outbox::start(const owner& who, std::span<const receipt> what)
{
    check_owner(who);
    std::vector<start_answer> answers(what.size(), start_answer::lost);
    if (what.empty())
        return answers;
    return in_work(store_, [&](transaction& tx) {
        auto& queue = tx.session().queue();
        for (const auto& [number, positions] :
             grouped(what, [](const receipt& r) { return r.fence; })) {
            std::vector<receipt> group;
            for (const auto position : positions)
                group.push_back(what[position]);
            const auto part = queue.start(who.token, number, group);
            for (std::size_t i = 0; i < positions.size(); ++i)
                answers[positions[i]] = part[i];
        }
        return answers;
    });
}

// When it is committed, only the caller knows.
settle_result outbox::settle(transaction& tx, const owner& who, std::span<const settlement> what)
{
    lines_of_work lines(tx.session().environment());
    auto result = settle_in(tx, options_, who, what, lines);
    lines.tell();
    return result;
}

settle_result outbox::settle(const owner& who, std::span<const settlement> what)
{
    check_owner(who);
    if (what.empty())
        return {};
    if (options_.hooks.empty() && are_done_in_one_batch(what) && !core::counts_the_lost)
        return settle_as_done(who, what);
    lines_of_work lines(store_.environment());
    auto result =
        in_work(store_, [&](transaction& tx) { return settle_in(tx, options_, who, what, lines); });
    lines.tell();
    return result;
}

// What happens most: a whole batch is done, and nothing else belongs into that transaction.
settle_result outbox::settle_as_done(const owner& who, std::span<const settlement> what)
{
    std::vector<contract::decided> all;
    all.reserve(what.size());
    for (const auto& each : what)
        all.push_back({each.receipt, {}});
    return contract::run_again(store_.environment(), [&] {
        return settle_result{store_.backend().settle(who.token, what.front().receipt.fence, all,
                                                     options_.keep_done)};
    });
}

settle_result outbox::settle_all(const owner& who, std::span<const receipt> what,
                                 const outcome& how)
{
    std::vector<settlement> all;
    all.reserve(what.size());
    for (const auto& each : what)
        all.push_back({each, how});
    return settle(who, all);
}

settle_result outbox::acknowledge(const owner& who, std::span<const receipt> what)
{
    return settle_all(who, what, done());
}

settle_result outbox::acknowledge(transaction& tx, const owner& who, std::span<const receipt> what)
{
    std::vector<settlement> all;
    all.reserve(what.size());
    for (const auto& each : what)
        all.push_back({each, done()});
    return settle(tx, who, all);
}

settle_result outbox::abandon(const owner& who, std::span<const receipt> what,
                              std::optional<duration> delay, std::string_view error)
{
    return settle_all(
        who, what, {.verdict = outcome::kind::retry, .delay = delay, .error = std::string(error)});
}

settle_result outbox::fail(const owner& who, std::span<const receipt> what, std::string_view reason)
{
    return settle_all(who, what, posthorn::fail(std::string(reason)));
}

bool outbox::renew(const owner& who, fence which, duration lease)
{
    check_owner(who);
    check_lease(lease);
    return in_work(store_, [&](transaction& tx) {
        return tx.session().queue().renew(who.token, which, lease);
    });
}

// All together. A worker goes on piece by piece if that fails: a message that another transaction
// holds, or that a settlement hook fails for, keeps no other one back.
reap_report outbox::reap_expired(std::size_t limit)
{
    try {
        lines_of_work lines(store_.environment());
        const auto report = in_work(store_, [&](transaction& tx) {
            return reap_batches(tx, limit, options_, std::nullopt, lines);
        });
        lines.tell();
        return report;
    } catch (...) {
        if (!contract::hurry::is_on() || !concerns_one_message(std::current_exception()))
            throw;
    }
    return reap_one_by_one(store_, limit, options_);
}

reap_report outbox::reap(transaction& tx, std::size_t limit)
{
    lines_of_work lines(tx.session().environment());
    const auto report = reap_batches(tx, limit, options_, std::nullopt, lines);
    lines.tell();
    return report;
}

std::size_t outbox::expire_due(std::size_t limit)
{
    return in_transaction(store_,
                          [&](transaction& tx) { return tx.session().queue().expire_due(limit); });
}

} // namespace posthorn
