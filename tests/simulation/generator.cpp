// Whole seconds everywhere: what is due, late or run out then often is so at exactly the same
// moment.
#include "simulation/generator.hpp"

#include <algorithm>
#include <array>

namespace posthorn::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::array topics{"order", "order", "stubborn", "fragile"};
constexpr std::array keys{"red", "green"};
constexpr std::array dedup_keys{"first", "second"};
constexpr std::array owners{"alice", "bob"};
constexpr std::array reasons{park_reason::no_handler, park_reason::paused, park_reason::at_limit};

} // namespace

generator::generator(std::uint64_t seed)
    : engine_(seed),
      plain_(one_of(std::array{5U, 50U, 80U})),
      keyed_(one_of(std::array{10U, 50U, 95U})),
      failing_(one_of(std::array{20U, 80U})),
      sparing_(one_of(std::array{0U, 30U, 80U}))
{}

operation generator::next(const model_side& so_far)
{
    const auto dice = below(100);
    if (dice < 26 || messages_ == 0)
        return any_enqueue(so_far.now());
    if (dice < 43 || so_far.history().empty())
        return any_claim();
    if (dice < 51)
        return any_start(so_far);
    if (dice < 70)
        return any_settlement(so_far);
    if (dice < 79)
        return advance_step{any_advance()};
    if (dice < 83)
        return reap_step{once_in(3) ? 1U : 100U};
    if (dice < 87)
        return cancel_step{any_id()};
    if (dice < 89)
        return expire_step{};
    if (dice < 93)
        return redrive_step{mostly_a_dead_one(so_far)};
    if (dice < 94)
        return purge_step{mostly_a_dead_one(so_far)};
    if (dice < 96)
        return retry_key_step{one_of(keys)};
    if (dice < 98)
        return skip_key_step{one_of(keys)};
    const auto some = some_receipts(so_far);
    if (some.empty())
        return expire_step{};
    return renew_step{owner_or_stranger(some[0].owner), some[0].receipt.fence, seconds(5, 40)};
}

newcomer generator::any_message(timestamp now)
{
    newcomer result{{{one_of(topics), "payload"}, {.id = numbered_id(++messages_)}}, once_in(2)};
    auto& how = result.what.options;
    if (chance(plain_))
        return result;
    if (chance(keyed_))
        how.ordering_key = once_in(4) ? keys[1] : keys[0];
    if (once_in(3))
        how.priority = static_cast<int>(below(3)) * 5 - 5;
    if (once_in(3))
        how.delay = seconds(0, 20);
    else if (once_in(4))
        how.due_at = now + seconds(0, 30) - 20s;
    if (once_in(4))
        how.expires_after = how.delay.value_or(how.due_at ? 10s : 0s) + seconds(1, 30);
    else if (once_in(6) && !how.due_at && !how.delay)
        how.expires_at = now + seconds(0, 30) - 5s;
    if (once_in(4)) {
        how.dedup_key = one_of(dedup_keys);
        how.dedup_window = seconds(1, 30);
    }
    return result;
}

enqueue_step generator::any_enqueue(timestamp now)
{
    enqueue_step result;
    const auto count = once_in(4) ? 2 + below(5) : 1;
    for (unsigned i = 0; i < count; ++i)
        result.messages.push_back(any_message(now));
    return result;
}

claim_step generator::any_claim()
{
    claim_step result{.owner = one_of(owners), .lease = seconds(5, 30), .limit = 1 + below(6)};
    if (once_in(2))
        result.start = below(static_cast<unsigned>(result.limit) + 2);
    while (chance(sparing_) && result.unpark.size() < 3)
        result.unpark.emplace_back(one_of(topics)); // now and then one of them twice
    return result;
}

// Some receipts of one batch, now and then joined by older ones and by repetitions.
std::vector<model_side::handed_out> generator::some_receipts(const model_side& so_far)
{
    const auto& all = so_far.history();
    if (all.empty())
        return {};
    const auto recent = std::min<std::size_t>(all.size(), 12);
    const auto any = [&] { return all[all.size() - 1 - below(static_cast<unsigned>(recent))]; };
    std::vector<model_side::handed_out> result{any()};
    for (const auto& each : all)
        if (each.receipt.fence == result[0].receipt.fence && !once_in(3))
            result.push_back(each);
    if (once_in(3))
        result.push_back(any());
    if (once_in(8))
        result.push_back(one_of(all));
    if (!once_in(4))
        result.erase(result.begin()); // most often without repeating the first
    return result;
}

std::string generator::owner_or_stranger(const std::string& owner)
{
    return once_in(10) ? std::string(one_of(owners)) : owner;
}

start_step generator::any_start(const model_side& so_far)
{
    start_step result{.owner = one_of(owners), .receipts = {}};
    for (const auto& each : some_receipts(so_far)) {
        result.owner = owner_or_stranger(each.owner);
        result.receipts.push_back(each.receipt);
    }
    return result;
}

settle_step generator::any_settlement(const model_side& so_far)
{
    settle_step result{.owner = one_of(owners), .settlements = {}};
    for (const auto& each : some_receipts(so_far)) {
        result.owner = owner_or_stranger(each.owner);
        result.settlements.push_back({each.receipt, any_outcome()});
    }
    return result;
}

outcome generator::any_outcome()
{
    if (!chance(failing_))
        return done();
    if (chance(sparing_)) {
        if (once_in(2))
            return park(one_of(reasons));
        return once_in(3) ? outcome{.verdict = outcome::kind::postpone} : postpone(seconds(0, 15));
    }
    if (once_in(3))
        return fail(once_in(5) ? "" : "cannot be done");
    if (once_in(2))
        return retry(once_in(3) ? "" : "not now");
    return retry_in(seconds(0, 15), once_in(3) ? "" : "later");
}

duration generator::any_advance()
{
    if (once_in(12))
        return 2h;
    return once_in(4) ? seconds(20, 90) : seconds(1, 12);
}

message_id generator::any_id()
{
    return numbered_id(1 + below(messages_ + 1));
}

message_id generator::mostly_a_dead_one(const model_side& so_far)
{
    std::vector<message_id> dead;
    for (const auto& [position, each] : so_far.model().messages())
        if (each.state == message_state::dead)
            dead.push_back(each.id);
    return dead.empty() || once_in(5) ? any_id() : one_of(dead);
}

} // namespace posthorn::simulation
