// Retrying: how long a failed message waits, and when it has failed often enough.
#include "conformance/conformance_test.hpp"

#include <atomic>
#include <cstring>
#include <numeric>

namespace posthorn::conformance {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;

/// Always the same upper half, so that chance is a choice; the rest differs, so that ids do.
class fixed_chance final : public random_source {
public:
    explicit fixed_chance(std::uint32_t upper_half) : upper_half_(upper_half) {}

    void fill(std::span<std::uint8_t> bytes) override
    {
        const auto drawn = std::uint64_t{upper_half_} << 32U | ++count_;
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<std::uint8_t>(drawn >> (8 * (i % 8)));
    }

private:
    std::uint32_t upper_half_;
    std::atomic<std::uint32_t> count_{0};
};

class retrying : public conformance_test {
protected:
    /// Fails a message until it is dead, at most `rounds` times; the waits in between.
    /// Between two starts the clock stands just before the due time once, and nothing is due then.
    std::vector<duration> waits_of(store& where, outbox& with, message_id id, int rounds)
    {
        std::vector<duration> waits;
        for (int i = 0; i < rounds; ++i) {
            const auto claimed = with.claim(alice);
            EXPECT_THAT(ids_of(claimed), ElementsAre(id));
            with.abandon(alice, claimed.receipts(), {}, "failure");
            const auto record = find_message(where, id).value();
            if (record.state == message_state::dead)
                break;
            waits.push_back(record.due_at - now());
            if (waits.back() > 0us) {
                clock().set(record.due_at - 1us);
                EXPECT_TRUE(with.claim(alice).empty());
            }
            clock().set(record.due_at);
        }
        return waits;
    }

    std::vector<duration> waits_of(outbox_options options, message_id id, int rounds)
    {
        auto with = box_with(std::move(options));
        return waits_of(db(), with, id, rounds);
    }

    /// The waits of the default policy when chance takes as much as `upper_half` says.
    std::vector<duration> default_waits(std::uint32_t upper_half)
    {
        auto lucky = world();
        lucky.random = std::make_shared<fixed_chance>(upper_half);
        auto where = under_test().open({.environment = lucky});
        outbox with(where);
        const auto id = enqueue(where, {.topic = "orders", .payload = ""}).id;
        auto waits = waits_of(where, with, id, 40);
        EXPECT_EQ(find_message(where, id)->state, message_state::dead);
        EXPECT_EQ(find_message(where, id)->attempts, 25);
        return waits;
    }

    /// What they are when chance takes nothing.
    static std::vector<duration> longest_default_waits()
    {
        std::vector<duration> result;
        for (duration wait = 2s; result.size() < 24; wait = std::min<duration>(wait * 2, 6h))
            result.push_back(wait);
        return result;
    }
};

// Proves: OUT-11, I17
TEST_P(retrying, by_default_waits_double_up_to_six_hours_and_end_after_25_attempts)
{
    EXPECT_EQ(default_waits(0), longest_default_waits());
}

// Proves: OUT-11
TEST_P(retrying, chance_takes_up_to_half_of_a_default_wait)
{
    const auto longest = longest_default_waits();
    for (const std::uint32_t chance : {0x40000000U, 0x80000000U, 0xc0000000U, 0xffffffffU}) {
        const auto waits = default_waits(chance);
        ASSERT_THAT(waits, SizeIs(24));
        EXPECT_GT(std::accumulate(waits.begin(), waits.end(), duration{}), 24h);
        for (std::size_t i = 0; i < 24; ++i)
            EXPECT_THAT(waits[i], AllOf(Ge(longest[i] / 2), Le(longest[i]))) << "wait " << i;
    }
    EXPECT_THAT(default_waits(0x80000000U)[0], AllOf(Ge(1'499ms), Le(1'501ms)));
    EXPECT_THAT(default_waits(0xffffffffU)[0], Le(1'001ms));
}

// Proves: OUT-11, OUT-12
TEST_P(retrying, the_last_failure_ends_as_a_dead_letter_with_its_error)
{
    const auto id = add();
    ASSERT_THAT(waits_of(outbox_options{}, id, 40), SizeIs(24));

    const auto record = look(id);
    EXPECT_EQ(record.state, message_state::dead);
    EXPECT_EQ(record.attempts, 25);
    EXPECT_EQ(record.errors, 25);
    EXPECT_EQ(record.last_error, "failure");
    EXPECT_EQ(record.finished_at, now());
    clock().advance(24h * 365);
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-11, I17
TEST_P(retrying, a_persistent_policy_never_gives_up_and_ends_at_one_try_a_day)
{
    const outbox_options options{.retries = {.fallback = persistent_retry{}}};
    const auto id = add();

    const auto waits = waits_of(options, id, 30);

    ASSERT_THAT(waits, SizeIs(30));
    EXPECT_THAT(std::vector(waits.begin(), waits.begin() + 9),
                ElementsAre(2s, 4s, 8s, 16s, 32s, 64s, 128s, 256s, 512s));
    EXPECT_THAT(std::vector(waits.begin() + 9, waits.end()), Each(24h));
    EXPECT_EQ(look(id).attempts, 30);
    EXPECT_THAT(work_off(), ElementsAre(id));
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: OUT-11
TEST_P(retrying, a_persistent_policy_takes_its_own_numbers)
{
    const outbox_options options{
        .retries = {.fallback = persistent_retry{
                        .first = 1s, .failures_max = 3, .then_every = 1h, .jitter = 0.0}}};
    EXPECT_THAT(waits_of(options, add(), 5), ElementsAre(1s, 2s, 1h, 1h, 1h));
}

// Proves: OUT-11
TEST_P(retrying, an_exponential_policy_takes_its_own_numbers)
{
    const outbox_options options{
        .retries = {.fallback = exponential_retry{
                        .first = 3s, .cap = 10s, .attempts_max = 5, .jitter = 0.0}}};
    const auto id = add();
    EXPECT_THAT(waits_of(options, id, 20), ElementsAre(3s, 6s, 10s, 10s));
    EXPECT_EQ(look(id).attempts, 5);
}

// Proves: OUT-11
TEST_P(retrying, a_single_attempt_can_be_all_there_is)
{
    const auto id = add();
    EXPECT_THAT(waits_of(steady_retries(1s, 1), id, 5), ElementsAre());
    EXPECT_EQ(state_of(id), message_state::dead);
    EXPECT_EQ(look(id).attempts, 1);
}

// Proves: OUT-11
TEST_P(retrying, a_rule_of_the_users_decides_by_the_number_of_starts)
{
    std::vector<int> asked;
    const outbox_options options{
        .retries = {.fallback = custom_retry{[&](int starts) -> std::optional<duration> {
                        asked.push_back(starts);
                        if (starts >= 4)
                            return std::nullopt;
                        return std::chrono::seconds{100 * starts};
                    }}}};
    const auto id = add();

    EXPECT_THAT(waits_of(options, id, 20), ElementsAre(100s, 200s, 300s));
    EXPECT_THAT(asked, ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(state_of(id), message_state::dead);
}

// Proves: OUT-11
TEST_P(retrying, a_topic_can_have_a_rule_of_its_own)
{
    auto options = steady_retries(5s, 9);
    options.retries.by_topic["mail"] =
        exponential_retry{.first = 40s, .cap = 40s, .attempts_max = 9, .jitter = 0.0};
    options.retries.by_topic["never"] =
        custom_retry{[](int) -> std::optional<duration> { return std::nullopt; }};
    auto with = box_with(options);
    const std::vector ids{add("orders"), add("mail"), add("never"), add("mail.urgent")};

    with.abandon(alice, with.claim(alice).receipts(), {}, "failure");

    EXPECT_EQ(look(ids[0]).due_at, now() + 5s);
    EXPECT_EQ(look(ids[1]).due_at, now() + 40s);
    EXPECT_EQ(state_of(ids[2]), message_state::dead);
    EXPECT_EQ(look(ids[3]).due_at, now() + 5s);
}

// Proves: OUT-11, I17
TEST_P(retrying, an_explicit_delay_is_used_instead_of_the_policys)
{
    auto with = box_with(steady_retries(5s, 9));
    const auto ids = add_many(3);
    const auto r = with.claim(alice).receipts();

    with.abandon(alice, std::vector{r[0]}, 42s, "failure");
    with.abandon(alice, std::vector{r[1]}, 0s, "failure");
    with.abandon(alice, std::vector{r[2]}, -1h, "failure");

    EXPECT_EQ(look(ids[0]).due_at, now() + 42s);
    EXPECT_EQ(look(ids[1]).due_at, now());
    EXPECT_EQ(look(ids[2]).due_at, now());
    EXPECT_THAT(ids_of(with.claim(alice)), ElementsAre(ids[1], ids[2]));
    clock().advance(42s - 1us);
    EXPECT_TRUE(with.claim(alice).empty());
    clock().advance(1us);
    EXPECT_THAT(ids_of(with.claim(alice)), ElementsAre(ids[0]));
}

// Proves: OUT-11, I5
TEST_P(retrying, an_explicit_delay_does_not_save_the_last_attempt)
{
    auto with = box_with(steady_retries(5s, 2));
    const auto id = add();
    const auto give_up_for = [&](duration delay) {
        return with.abandon(alice, with.claim(alice).receipts(), delay, "failure").answers.at(0);
    };

    EXPECT_EQ(give_up_for(0s), settled_as::retrying);
    EXPECT_EQ(give_up_for(0s), settled_as::dead);
    EXPECT_EQ(look(id).attempts, 2);
}

// Proves: OUT-11
TEST_P(retrying, a_permanent_failure_ends_at_once)
{
    auto with = box_with(steady_retries(5s, 99));
    const auto id = add();

    EXPECT_EQ(with.fail(alice, with.claim(alice).receipts(), "no such customer").answers.at(0),
              settled_as::dead);

    const auto record = look(id);
    EXPECT_EQ(record.state, message_state::dead);
    EXPECT_EQ(record.attempts, 1);
    EXPECT_EQ(record.errors, 1);
    EXPECT_EQ(record.last_error, "no such customer");
    EXPECT_EQ(record.failed_at, now());
    EXPECT_EQ(record.finished_at, now());
}

// Proves: OUT-11, OUT-12
TEST_P(retrying, a_permanent_failure_without_a_reason_is_a_failure_too)
{
    const auto id = add();

    ASSERT_EQ(fail(claim_one(), ""), settled_as::dead);

    EXPECT_EQ(look(id).errors, 1);
    EXPECT_EQ(look(id).failed_at, now());
}

// Proves: OUT-11, OUT-12
TEST_P(retrying, giving_back_without_an_error_costs_an_attempt_but_is_no_error)
{
    const auto id = add();

    ASSERT_EQ(abandon(claim_one(), 0s), settled_as::retrying);

    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(look(id).errors, 0);
    EXPECT_EQ(look(id).failed_at, std::nullopt);
}

// Proves: OUT-11, OUT-12
TEST_P(retrying, whoever_dies_without_an_error_dies_with_a_reason)
{
    auto with = box_with(steady_retries(0s, 2));
    const auto id = add();
    with.abandon(alice, with.claim(alice).receipts());
    with.abandon(alice, with.claim(alice).receipts());

    EXPECT_EQ(state_of(id), message_state::dead);
    EXPECT_THAT(look(id).last_error, ::testing::HasSubstr("2 attempts"));
}

// Proves: OUT-12
TEST_P(retrying, an_error_is_cut_at_two_thousand_bytes)
{
    const auto id = add();

    ASSERT_EQ(abandon(claim_one(), 0s, std::string(2'000, 'x')), settled_as::retrying);
    EXPECT_EQ(look(id).last_error, std::string(2'000, 'x'));
    ASSERT_EQ(abandon(claim_one(), 0s, std::string(2'001, 'y')), settled_as::retrying);
    EXPECT_EQ(look(id).last_error, std::string(2'000, 'y'));
    ASSERT_EQ(fail(claim_one(), std::string(1'000'000, 'z')), settled_as::dead);
    EXPECT_EQ(look(id).last_error, std::string(2'000, 'z'));
}

// Proves: OUT-12
TEST_P(retrying, an_error_is_never_cut_inside_a_character)
{
    const auto id = add();
    const auto kept = [&](std::size_t ahead, const std::string& character) {
        const std::string text(ahead, 'x');
        EXPECT_EQ(abandon(claim_one(), 0s, text + character + "tail"), settled_as::retrying);
        const auto stored = look(id).last_error;
        EXPECT_EQ(stored.substr(0, ahead), text);
        return stored.substr(ahead);
    };

    EXPECT_EQ(kept(1'998, "ä"), "ä");
    EXPECT_EQ(kept(1'999, "ä"), "");
    EXPECT_EQ(kept(1'997, "€"), "€");
    EXPECT_EQ(kept(1'998, "€"), "");
    EXPECT_EQ(kept(1'996, "📯"), "📯");
    EXPECT_EQ(kept(1'997, "📯"), "");
    EXPECT_EQ(kept(1'999, "📯"), "");
}

// Proves: OUT-11, I17, F1
TEST_P(retrying, what_a_crash_left_behind_waits_as_after_a_failure)
{
    auto with = box_with(steady_retries(7s, 5));
    const auto id = add();
    ASSERT_EQ(with.claim(alice).size(), 1U);
    clock().advance(30s);
    ASSERT_EQ(with.reap_expired().retrying, 1U);

    EXPECT_EQ(look(id).due_at, now() + 7s);
    clock().advance(7s - 1us);
    EXPECT_TRUE(with.claim(alice).empty());
    clock().advance(1us);
    EXPECT_THAT(ids_of(with.claim(alice)), ElementsAre(id));
}

// Proves: OUT-11, I6
TEST_P(retrying, one_failure_does_not_hold_up_its_neighbours)
{
    const auto ids = add_many(5);
    auto r = claim().receipts();
    ASSERT_EQ(abandon(r[2], 1h, "failure"), settled_as::retrying);
    r.erase(r.begin() + 2);
    EXPECT_EQ(box().acknowledge(alice, r).settled(), 4U);
    const auto later = add();

    EXPECT_THAT(work_off(), ElementsAre(later));
    EXPECT_EQ(state_of(ids[2]), message_state::ready);
}

} // namespace

CONFORMANCE_SUITE(retrying);

} // namespace posthorn::conformance
