// The life of a batch: claimed, started, settled, renewed, or taken back.
#include "store/postgres/queue.hpp"

#include "core/validation.hpp"
#include "store/contract/numbered_id.hpp"
#include "store/postgres/claimed_rows.hpp"
#include "store/postgres/key_heads.hpp"
#include "store/postgres/row_state.hpp"
#include "store/postgres/settling.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace posthorn::postgres {
namespace {

constexpr std::size_t chores_at_once = 1'000;

std::vector<std::int64_t> positions(std::span<const receipt> what)
{
    std::vector<std::int64_t> result;
    result.reserve(what.size());
    for (const auto& each : what)
        result.push_back(each.position);
    return result;
}

arguments claim_arguments(const contract::claim_request& request, std::int64_t from, bool anyway,
                          const environment& world)
{
    using statement = sql::claim;
    arguments with;
    set_now(with, statement::now, world);
    with.set_flag(statement::anyway, anyway)
        .set(statement::limit, static_cast<std::int64_t>(request.limit))
        .set(statement::low, from)
        .set_text(statement::owner, request.owner)
        .set_text(statement::worker, request.worker)
        .set(statement::lease, request.lease)
        .set(statement::start, static_cast<std::int64_t>(request.start));
    return with;
}

arguments unpark_arguments(const contract::claim_request& request, const environment& world)
{
    using statement = sql::unpark;
    const std::vector<std::string_view> topics(request.unpark.begin(), request.unpark.end());
    arguments with;
    set_now(with, statement::now, world);
    with.set(statement::topics, topics)
        .set(statement::after, request.unpark_after)
        .set(statement::limit, static_cast<std::int64_t>(request.limit));
    return with;
}

contract::open_delivery open_delivery_of(const receipt& what, const rows& found, int row,
                                         int state_column, int topic_column, int attempts_column)
{
    const bool started =
        static_cast<row_state>(found.integer(row, state_column)) == row_state::started;
    return {.receipt = what,
            .topic = std::string(found.text(row, topic_column)),
            .starts_before =
                static_cast<int>(found.integer(row, attempts_column)) - (started ? 1 : 0),
            .started = started};
}

arguments of_batch(std::string_view owner, fence which, const environment& world)
{
    arguments with;
    set_now(with, sql::lock_batch::now, world);
    with.set_text(sql::lock_batch::owner, owner).set(sql::lock_batch::fence, which);
    return with;
}

arguments of_members(fence which, std::span<const receipt> what, const environment& world)
{
    arguments with;
    set_now(with, sql::members::now, world);
    with.set(sql::members::fence, which)
        .set(sql::members::seqs, std::span<const std::int64_t>(positions(what)));
    return with;
}

template <typename Statement>
arguments late_arguments(std::size_t limit, const environment& world)
{
    arguments which;
    set_now(which, Statement::now, world);
    return which.set(Statement::limit, static_cast<std::int64_t>(limit));
}

// Those without a key, and those whose key is among these.
waiting_messages only(const waiting_messages& all, const std::unordered_set<std::string>& keys)
{
    waiting_messages result;
    for (std::size_t i = 0; i < all.seqs.size(); ++i) {
        const auto& key = all.key_of[i];
        if (!key.empty() && !keys.contains(key))
            continue;
        result.seqs.push_back(all.seqs[i]);
        result.key_of.push_back(key);
        if (!key.empty())
            result.keys.push_back(key);
    }
    return result;
}

} // namespace

// A worker's row that has gone, with the tables or alone, is written anew.
batch queue::claim_and_commit(const contract::claim_request& request)
{
    try {
        return claim_as_known(request);
    } catch (const error& failure) {
        if (failure.code() != error_code::constraint || !talk_.db().known_worker)
            throw;
        talk_.db().known_worker.reset();
        talk_.start_over();
        return claim_as_known(request);
    }
}

batch queue::claim_as_known(const contract::claim_request& request)
{
    // A worker's name is written once, and then known by its number.
    if (talk_.db().known_worker != request.worker) {
        talk_.run_alone(sql::know_worker::text,
                        arguments{}.set_text(sql::know_worker::worker, request.worker),
                        commit_sent::no);
        talk_.db().known_worker = request.worker;
    }
    const auto now = world_.clock->monotonic();
    const auto from = front_.front(now);
    try {
        if (from && !front_.leaves_chores(now) && request.start >= request.limit &&
            request.unpark.empty())
            if (auto plain = claim_plain(request, *from); !plain.empty())
                return plain;
        return claim_by_walking(request);
    } catch (const error& failure) {
        // Its row may be gone: then the name is written again before the next claim.
        if (failure.code() == error_code::constraint)
            talk_.db().known_worker.reset();
        throw;
    }
}

// Goes on where the last claim ended, as long as there is nothing but plain messages.
batch queue::claim_plain(const contract::claim_request& request, std::int64_t from)
{
    using statement = sql::claim_plain;
    const auto tables = front_.tables();
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::low, from)
        .set(statement::limit, static_cast<std::int64_t>(request.limit))
        .set_text(statement::owner, request.owner)
        .set(statement::lease, request.lease)
        .set_text(statement::worker, request.worker);
    const auto found = talk_.run_alone(statement::text, with);
    batch claimed = read_plain_batch(found, request.lease);
    if (!claimed.empty())
        front_.claimed(claimed.deliveries.front().receipt.position,
                       claimed.deliveries.back().receipt.position,
                       static_cast<std::int64_t>(claimed.size()), tables);
    remember_low();
    return claimed;
}

// Seldom, and on its own: so that the next process need not walk through what this one has drained.
// What was claimed just before has been committed, and must reach its worker whatever happens here.
void queue::remember_low()
{
    const auto [low, tables] = front_.worth_remembering();
    if (low == 0)
        return;
    arguments with;
    with.set(sql::raise_mark::low, low).set(sql::raise_mark::tables, tables);
    try {
        const auto found = talk_.run_alone(sql::raise_mark::text, with, commit_sent::no);
        (void)front_.compare(tables, found.integer(0, 0), found.integer(0, 1));
    } catch (const error&) {
        // The next process walks further, and a broken connection is not used again.
    }
}

batch queue::take(const rows& claimed, const contract::claim_request& request, incarnation tables)
{
    note_plain(claimed, front_, tables);
    return read_batch(claimed, request.lease);
}

// From the lowest message that may still wait, looking what else has to be done. If messages that
// were put aside come back, that is part of the same transaction, and so are the chores before it.
batch queue::claim_by_walking(const contract::claim_request& request)
{
    const auto began = world_.clock->monotonic();
    const auto tables = front_.tables(); // first: positions of others do no harm
    const auto sighting = front_.last_sighting();
    const auto number_before = front_.last_number();
    const auto from = front_.low();
    arguments look;
    set_now(look, sql::look::now, world_);
    look.set(sql::look::seen_before, sighting.seen_before)
        .set(sql::look::seen_to, sighting.seen_to)
        .set(sql::look::low, from);
    const bool unparks = !request.unpark.empty();
    const auto unpark = unpark_arguments(request, world_);
    // While chores are left undone, there is no use in waiting for them.
    const bool anyway = unparks || front_.leaves_chores(began);
    const auto first = claim_arguments(request, from, anyway, world_);
    arguments own;
    own.set_flag(sql::own_transaction::draw, front_.wants_sighting());
    if (unparks) {
        do_chores(request.limit);
        talk_.run(sql::unpark::text, unpark);
    }
    const auto results = talk_.run_all_and_commit(
        {{sql::look::text, look}, {sql::claim::text, first}, {sql::own_transaction::text, own}});
    const auto& seen = results[0];
    const bool others = front_.learn({.number_before = number_before,
                                      .own_transaction = results[2].integer(0, 0),
                                      .last_number = seen.integer(0, 3),
                                      .low = seen.integer(0, 4),
                                      .sighting_counts = seen.yes(0, 5),
                                      .asked_about = tables,
                                      .tables = seen.integer(0, 6),
                                      .mark = seen.integer(0, 7)});
    if (others && results[1].empty())
        return claim_by_walking(request);
    remember_low();
    const bool left = anyway && !unparks;
    const bool chores = (!left && (seen.yes(0, 0) || seen.yes(0, 2))) || seen.yes(0, 1);
    if (!results[1].empty()) {
        front_.walked(began, world_.clock->monotonic());
        return take(results[1], request, tables);
    }
    if (unparks || !chores)
        return {};
    // In a transaction that begins with them.
    do_chores(request.limit, seen.yes(0, 0) ? arrivals::some : arrivals::unknown);
    const auto again = claim_arguments(request, from, true, world_);
    return take(talk_.run_all_and_commit({{sql::claim::text, again}})[0], request, tables);
}

// In somebody's larger transaction. What that has not committed yet must not move the frontier.
batch queue::claim(const contract::claim_request& request)
{
    talk_.run(sql::know_worker::text,
              arguments{}.set_text(sql::know_worker::worker, request.worker));
    do_chores(request.limit);
    if (!request.unpark.empty())
        talk_.run(sql::unpark::text, unpark_arguments(request, world_));
    const auto with = claim_arguments(request, front_.low(), true, world_);
    return read_batch(talk_.run(sql::claim::text, with), request.lease);
}

// What must happen before a claim may choose: late messages end, those whose time has come become
// due, and those that arrived with a key find their places. What another transaction holds is left
// for later: an application may keep its transaction open for as long as it likes.
void queue::do_chores(std::size_t limit, arrivals seen)
{
    const auto at_once = std::max(limit, chores_at_once);
    const auto which = late_arguments<sql::late>(at_once, world_);
    arguments how_many;
    how_many.set(sql::arrivals::limit, static_cast<std::int64_t>(at_once));
    arguments how_many_heads;
    how_many_heads.set(sql::stale_heads::limit, static_cast<std::int64_t>(at_once));
    const auto found = talk_.run_all({{sql::late::text, which},
                                      {sql::arrivals::text, how_many},
                                      {sql::stale_heads::text, how_many_heads}});
    auto late = read_waiting(found[0]);
    auto arrived = read_waiting(found[1]);
    std::vector<std::string> stale;
    for (int row = 0; row < found[2].size(); ++row)
        stale.emplace_back(found[2].text(row, 0));
    contract::gathering ends(follower_); // joins are locked last
    key_heads heads(talk_, world_);
    auto keys = late.keys;
    keys.insert(keys.end(), arrived.keys.begin(), arrived.keys.end());
    keys.insert(keys.end(), stale.begin(), stale.end());
    if (!keys.empty()) {
        const auto locked = heads.lock_free(keys, arrived);
        const auto count = late.seqs.size() + arrived.seqs.size() + stale.size();
        late = only(late, locked);
        arrived = only(arrived, locked);
        std::erase_if(stale, [&](const std::string& key) { return !locked.contains(key); });
        if (late.seqs.size() + arrived.seqs.size() + stale.size() < count)
            front_.left_chores(world_.clock->monotonic());
    } else if (seen == arrivals::some && late.seqs.empty()) { // another transaction holds them all
        front_.left_chores(world_.clock->monotonic());
    }
    if (!stale.empty()) {
        heads.forget_stale(stale);
        heads.move_on(stale);
    }
    expire(late);
    if (!arrived.seqs.empty())
        heads.admit(arrived.keys, arrived.seqs);
    arguments ripen;
    set_now(ripen, sql::ripen::now, world_);
    ripen.set(sql::ripen::limit, static_cast<std::int64_t>(at_once));
    talk_.run(sql::ripen::text, ripen);
    ends.follow();
}

std::vector<start_answer> queue::start(std::string_view owner, fence which,
                                       std::span<const receipt> what)
{
    std::vector<start_answer> answers(what.size(), start_answer::lost);
    const auto batch = of_batch(owner, which, world_);
    const auto members = of_members(which, what, world_);
    arguments any;
    any.set(sql::lock_any_batch::fence, which);
    const auto results = talk_.run_all({{sql::lock_any_batch::text, any},
                                        {sql::lock_batch::text, batch},
                                        {sql::members::text, members}});
    const bool exists = !results[0].empty();
    const bool ours = !results[1].empty();
    const bool in_time = ours && results[1].yes(0, 0);
    if (exists && !in_time)
        return answers;

    const auto& found = results[2];
    std::unordered_map<std::int64_t, int> row_of;
    for (int row = 0; row < found.size(); ++row)
        row_of.emplace(found.integer(row, 0), row);
    std::vector<std::int64_t> starting;
    std::vector<std::int64_t> late;
    std::vector<std::string> late_keys;
    for (std::size_t i = 0; i < what.size(); ++i) {
        const auto at = row_of.find(what[i].position);
        if (at == row_of.end() || found.id(at->second, 4) != what[i].id)
            continue;
        const auto state = static_cast<row_state>(found.integer(at->second, 1));
        if (state == row_state::cancelled || state == row_state::expired) {
            answers[i] = start_answer::gone;
        } else if (state == row_state::started && ours) {
            answers[i] = start_answer::started;
        } else if (state == row_state::claimed && ours && found.yes(at->second, 2)) {
            late.push_back(what[i].position);
            if (!found.text(at->second, 6).empty())
                late_keys.emplace_back(found.text(at->second, 6));
            answers[i] = start_answer::gone;
        } else if (state == row_state::claimed && ours) {
            starting.push_back(what[i].position);
            answers[i] = start_answer::started;
        }
    }
    if (!late.empty()) {
        arguments with;
        set_now(with, sql::call_off::now, world_);
        with.set(sql::call_off::state, number(row_state::expired))
            .set(sql::call_off::seqs, std::span<const std::int64_t>(late))
            .set(sql::call_off::from_state, number(row_state::claimed))
            .set(sql::call_off::fence, which);
        const auto ended = talk_.run(sql::call_off::text, with);
        leave_batch(talk_, which, ended.size());
        if (!late_keys.empty())
            key_heads(talk_, world_).move_on(late_keys);
        follower_.ended(expired_ones(ended));
    }
    if (!starting.empty()) {
        arguments with;
        set_now(with, sql::start::now, world_);
        with.set(sql::start::seqs, std::span<const std::int64_t>(starting))
            .set(sql::start::fence, which);
        talk_.run(sql::start::text, with);
    }
    return answers;
}

std::vector<contract::open_delivery> queue::open_deliveries(std::string_view owner, fence which,
                                                            std::span<const receipt> what)
{
    const auto batch = of_batch(owner, which, world_);
    const auto members = of_members(which, what, world_);
    const auto results =
        talk_.run_all({{sql::lock_batch::text, batch}, {sql::members::text, members}});
    std::vector<contract::open_delivery> result;
    if (results[0].empty())
        return result;
    const auto& found = results[1];
    std::unordered_map<std::int64_t, int> row_of;
    for (int row = 0; row < found.size(); ++row) {
        const auto state = static_cast<row_state>(found.integer(row, 1));
        if (state == row_state::claimed || state == row_state::started)
            row_of.emplace(found.integer(row, 0), row);
    }
    for (const auto& each : what)
        if (const auto at = row_of.find(each.position);
            at != row_of.end() && found.id(at->second, 4) == each.id)
            result.push_back(open_delivery_of(each, found, at->second, 1, 3, 5));
    return result;
}

std::vector<settled_as> queue::settle(std::string_view owner, fence which,
                                      std::span<const contract::decided> what, bool keep_done)
{
    if (what.empty())
        return {};
    if (!fit(which, what))
        return settle_what_fits(owner, which, what, keep_done);
    const settling plan(owner, which, what, keep_done, settling::followed::settle_too, world_);
    const auto results = talk_.run_all(plan.steps());
    auto answers = plan.answers(results);
    if (plan.any_followed(results))
        follower_.ended(plan.ends(answers));
    return answers;
}

// Whether each receipt names the id of the message at its position. Ids that Posthorn made tell by
// themselves; others are looked up.
bool queue::fit(fence which, std::span<const contract::decided> what)
{
    std::vector<receipt> foreign;
    for (const auto& each : what)
        if (contract::number_in(each.receipt.id) != each.receipt.position)
            foreign.push_back(each.receipt);
    if (foreign.empty())
        return true;
    const auto found = talk_.run(sql::members::text, of_members(which, foreign, world_));
    std::unordered_map<std::int64_t, message_id> ids;
    for (int row = 0; row < found.size(); ++row)
        ids.emplace(found.integer(row, 0), found.id(row, 4));
    return std::ranges::all_of(foreign, [&](const receipt& each) {
        const auto at = ids.find(each.position);
        return at != ids.end() && at->second == each.id;
    });
}

std::vector<settled_as> queue::settle_what_fits(std::string_view owner, fence which,
                                                std::span<const contract::decided> what,
                                                bool keep_done)
{
    std::vector<contract::decided> fitting;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < what.size(); ++i)
        if (fit(which, what.subspan(i, 1))) {
            fitting.push_back(what[i]);
            places.push_back(i);
        }
    std::vector<settled_as> answers(what.size(), settled_as::lost);
    const auto part = settle(owner, which, fitting, keep_done);
    for (std::size_t i = 0; i < places.size(); ++i)
        answers[places[i]] = part[i];
    return answers;
}

std::vector<settled_as> queue::settle_and_commit(std::string_view owner, fence which,
                                                 std::span<const contract::decided> what,
                                                 bool keep_done)
{
    if (what.empty())
        return {};
    if (!fit(which, what)) {
        auto answers = settle_what_fits(owner, which, what, keep_done);
        talk_.commit();
        return answers;
    }
    if (keep_done && !talk_.has_begun())
        if (auto answers = settle_plain(owner, which, what); !answers.empty())
            return answers;
    const settling plan(owner, which, what, keep_done, settling::followed::settle_none, world_);
    const auto results = talk_.run_all_and_commit(plan.steps());
    auto answers = plan.answers(results);
    if (!plan.any_followed(results))
        return answers;
    // Nothing is settled yet, unless whoever followed a message left while these were under way.
    const auto with_followers = settle(owner, which, what, keep_done);
    talk_.commit();
    for (std::size_t i = 0; i < answers.size(); ++i)
        if (answers[i] == settled_as::lost)
            answers[i] = with_followers[i];
    return answers;
}

rows queue::run_settle_plain(std::string_view owner, fence which,
                             std::span<const std::int64_t> seqs)
{
    arguments with;
    const auto say_whose = [&]<typename Statement>(Statement) {
        set_now(with, Statement::now, world_);
        with.set_text(Statement::owner, owner).set(Statement::fence, which);
    };
    const bool without_gap = std::ranges::adjacent_find(seqs, [](auto each, auto next) {
                                 return next != each + 1;
                             }) == seqs.end();
    if (without_gap) {
        using statement = sql::settle_stretch;
        say_whose(statement{});
        with.set(statement::first, seqs.front()).set(statement::last, seqs.back());
        return talk_.run_alone(statement::text, with);
    }
    using statement = sql::settle_plain;
    say_whose(statement{});
    with.set(statement::seqs, seqs);
    return talk_.run_alone(statement::text, with);
}

// One statement that commits by itself. Empty: it was not for these.
std::vector<settled_as> queue::settle_plain(std::string_view owner, fence which,
                                            std::span<const contract::decided> what)
{
    std::vector<std::int64_t> seqs;
    seqs.reserve(what.size());
    for (const auto& each : what) {
        if (each.what.become != settled_as::done)
            return {};
        seqs.push_back(each.receipt.position);
    }
    const auto found = run_settle_plain(owner, which, seqs);
    if (found.integer(0, 0) == 0)
        return {};
    std::vector<settled_as> answers(what.size(),
                                    found.size() > 1 ? settled_as::lost : settled_as::done);
    for (int row = 1; row < found.size(); ++row)
        for (std::size_t i = 0; i < seqs.size(); ++i)
            if (seqs[i] == found.integer(row, 0))
                answers[i] = settled_as::done;
    return answers;
}

bool queue::renew(std::string_view owner, fence which, duration lease)
{
    using statement = sql::renew;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::lease, lease)
        .set(statement::fence, which)
        .set_text(statement::owner, owner);
    return talk_.run(statement::text, with).changed() == 1;
}

std::vector<contract::overdue_batch> queue::overdue_batches(std::size_t limit)
{
    using statement = sql::overdue_batches;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::limit, static_cast<std::int64_t>(limit));
    const auto found = talk_.run(statement::text, with);
    std::vector<contract::overdue_batch> result;
    for (int i = 0; i < found.size(); ++i) {
        contract::overdue_batch overdue{.fence = fence{found.integer(i, 0)},
                                        .owner = std::string(found.text(i, 1)),
                                        .open = {}};
        arguments of_this;
        of_this.set(sql::open_members::fence, overdue.fence);
        const auto members = talk_.run(sql::open_members::text, of_this);
        for (int row = 0; row < members.size(); ++row)
            overdue.open.push_back(open_delivery_of({.id = members.id(row, 3),
                                                     .position = members.integer(row, 0),
                                                     .fence = overdue.fence,
                                                     .ordinal = static_cast<std::uint32_t>(row)},
                                                    members, row, 1, 2, 4));
        result.push_back(std::move(overdue));
    }
    return result;
}

std::size_t queue::expire_due(std::size_t limit)
{
    const auto late =
        read_waiting(talk_.run(sql::late::text, late_arguments<sql::late>(limit, world_)));
    if (!late.keys.empty())
        key_heads(talk_, world_).lock(late.keys);
    return expire(late);
}

std::size_t queue::bring_back(std::size_t limit)
{
    using statement = sql::bring_back;
    return talk_.run(statement::text, late_arguments<statement>(limit, world_)).changed();
}

// Requires: the locks of their keys.
std::size_t queue::expire(const waiting_messages& late)
{
    if (late.seqs.empty())
        return 0;
    arguments with;
    set_now(with, sql::expire::now, world_);
    with.set(sql::expire::seqs, std::span<const std::int64_t>(late.seqs));
    const auto ended = talk_.run(sql::expire::text, with);
    if (!late.keys.empty())
        key_heads(talk_, world_).move_on(late.keys);
    follower_.ended(expired_ones(ended));
    return static_cast<std::size_t>(ended.size());
}

} // namespace posthorn::postgres
