// Errors: each says what it is and what may be done about it, and none of them gives away a
// payload.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string secret = "s3cr3t-of-the-customer";

class errors : public conformance_test {
protected:
    /// Neither the words nor the name of the statement hold anything of the message's content.
    static void expect_discreet(const error& failure)
    {
        EXPECT_STRNE(failure.what(), "");
        EXPECT_THAT(failure.what(), Not(HasSubstr(secret)));
        EXPECT_THAT(failure.statement(), Not(HasSubstr(secret)));
    }

    static void expect_busy(const std::function<void()>& call)
    {
        const auto failure = thrown_by(call);
        EXPECT_EQ(failure.code(), error_code::busy);
        EXPECT_TRUE(failure.retryable());
        EXPECT_FALSE(failure.in_doubt());
        EXPECT_FALSE(failure.poisons_connection());
        EXPECT_NE(failure.native_code(), 0);
        EXPECT_NE(failure.statement(), "");
        expect_discreet(failure);
    }
};

// Proves: OUT-02
TEST_P(errors, a_bad_argument_is_nobody_elses_fault)
{
    const auto failure = thrown_by([&] { enqueue(db(), {"", secret}); });
    EXPECT_EQ(failure.code(), error_code::invalid_argument);
    EXPECT_FALSE(failure.retryable());
    EXPECT_FALSE(failure.in_doubt());
    EXPECT_FALSE(failure.poisons_connection());
    EXPECT_EQ(failure.native_code(), 0);
    EXPECT_EQ(failure.statement(), "");
    expect_discreet(failure);
}

// Proves: OUT-03
TEST_P(errors, a_repeated_id_is_a_broken_constraint_and_stays_one)
{
    const auto id = add();
    for (int i = 0; i < 3; ++i) {
        const auto failure = thrown_by([&] { enqueue(db(), {"orders", secret}, {.id = id}); });
        EXPECT_EQ(failure.code(), error_code::constraint);
        EXPECT_FALSE(failure.retryable());
        EXPECT_FALSE(failure.in_doubt());
        EXPECT_FALSE(failure.poisons_connection());
        expect_discreet(failure);
    }
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-01
TEST_P(errors, a_transaction_that_has_ended_is_said_to_have)
{
    auto tx = db().begin();
    tx.commit();
    const auto failure = thrown_by([&] { enqueue(tx, {"orders", secret}); });
    EXPECT_EQ(failure.code(), error_code::no_transaction);
    EXPECT_FALSE(failure.retryable());
    EXPECT_FALSE(failure.in_doubt());
    expect_discreet(failure);
}

// Proves: OUT-02
TEST_P(errors, no_refusal_shows_the_payload_or_the_value_of_a_header)
{
    const auto id = add();
    const auto big = secret + std::string(limits{}.payload_bytes_max, 'x');
    const std::vector<outgoing> refused{
        {{"", secret}},
        {{"orders", big}},
        {{std::string(501, 'x'), secret}},
        {{"orders\xff", secret}},
        {{"orders", secret}, {.id = id}},
        {{"orders", secret}, {.id = message_id{}}},
        {{"orders", secret}, {.ordering_key = std::string(256, 'x')}},
        {{"orders", secret}, {.priority = 101}},
        {{"orders", secret}, {.delay = 1s, .due_at = now()}},
        {{"orders", secret}, {.expires_after = -1s}},
        {{"orders", secret}, {.dedup_key = "d", .dedup_window = 0s}},
        {{"orders", secret}, {.headers = {{"", secret}}}},
        {{"orders", secret}, {.headers = {{"token", secret + "\n"}}}},
        {{"orders", secret}, {.headers = {{"token", secret + "\xff"}}}},
        {{"orders", secret}, {.headers = {{"posthorn-id", secret}}}},
        {{"orders", secret}, {.headers = {{"token", secret + std::string(1U << 16U, 'x')}}}},
    };
    for (const auto& [what, how] : refused) {
        const auto failure = thrown_by([&] { enqueue(db(), what, how); });
        EXPECT_TRUE(failure.code() == error_code::invalid_argument ||
                    failure.code() == error_code::constraint);
        expect_discreet(failure);
    }
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-10
TEST_P(errors, a_worker_without_a_token_is_a_bad_argument)
{
    const auto failure = thrown_by([&] { (void)box().claim({.token = "", .worker = "alice"}); });
    EXPECT_EQ(failure.code(), error_code::invalid_argument);
    EXPECT_FALSE(failure.retryable());
}

// Proves: OUT-10
TEST_P(errors, no_error_shows_the_token_of_a_worker)
{
    const owner who{.token = secret, .worker = "alice"};
    expect_discreet(thrown_by([&] { (void)box().claim(who, {.lease = 0s}); }));
    expect_discreet(thrown_by([&] { (void)box().claim(who, {.limit = 0}); }));
    expect_discreet(thrown_by([&] { (void)box().renew(who, fence{1}, 0s); }));
}

// Proves: OUT-02
TEST_P(errors, a_refused_call_leaves_the_store_usable)
{
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(thrown_by([&] { enqueue(db(), {"", ""}); }).code(), error_code::invalid_argument);
        EXPECT_EQ(thrown_by([&] { (void)box().claim(alice, {.limit = 0}); }).code(),
                  error_code::invalid_argument);
    }
    const auto id = add();
    EXPECT_THAT(work_off(), ElementsAre(id));
}

// Proves: OUT-01, F17
TEST_P(errors, a_store_that_stays_locked_is_busy)
{
    auto impatient = under_test().open_impatient({.environment = world()});
    const auto id = add();
    auto app = under_test().connect(world());
    app->begin();

    const std::vector<std::function<void()>> calls{
        [&] {
            enqueue(impatient, {"orders", secret});
        },
        [&] {
            enqueue(impatient, std::vector<outgoing>(3, {{"orders", secret}}));
        },
        [&] { (void)impatient.begin(); },
        [&] { (void)cancel(impatient, id); },
        [&] { (void)outbox(impatient).claim(alice); },
    };
    for (const auto& call : calls)
        expect_busy(call);
    // Reading needs no lock.
    EXPECT_EQ(find_message(impatient, id).value().state, message_state::ready);
    EXPECT_EQ(list_messages(impatient).size(), 1U);
    app->rollback();
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-01, F17, I1
TEST_P(errors, a_busy_store_works_again_once_it_is_free)
{
    auto impatient = under_test().open_impatient({.environment = world()});
    auto app = under_test().connect(world());
    for (int i = 0; i < 3; ++i) {
        app->begin();
        const auto theirs = enqueue(app->borrow(), {"orders", "theirs"}).id;
        EXPECT_EQ(thrown_by([&] {
                      enqueue(impatient, {"orders", "ours"});
                  }).code(),
                  error_code::busy);
        app->commit();
        const auto ours = enqueue(impatient, {.topic = "orders", .payload = "ours"}).id;
        EXPECT_THAT(ids_of(outbox(impatient).claim(bob)), ElementsAre(theirs, ours));
    }
    EXPECT_EQ(total(), 6U);
}

// Proves: OUT-01, F17
TEST_P(errors, what_somebody_holds_is_busy)
{
    auto impatient = under_test().open_impatient({.environment = world()});
    const auto id = add();
    auto app = under_test().connect(world());
    for (int i = 0; i < 3; ++i) {
        app->begin();
        EXPECT_EQ(cancel(app->borrow(), id), cancel_answer::cancelled);
        expect_busy([&] { (void)cancel(impatient, id); });
        // Reading needs no lock.
        EXPECT_EQ(find_message(impatient, id).value().state, message_state::ready);
        EXPECT_EQ(list_messages(impatient).size(), 1U);
        app->rollback();
    }
    EXPECT_EQ(cancel(impatient, id), cancel_answer::cancelled);
}

// Proves: OUT-07, F17
TEST_P(errors, a_dedup_key_that_somebody_is_using_is_busy)
{
    auto impatient = under_test().open_impatient({.environment = world()});
    auto app = under_test().connect(world());
    const auto use = [&](auto& where) {
        return enqueue(where, {"orders", secret}, {.dedup_key = "d"});
    };
    for (int i = 0; i < 3; ++i) {
        app->begin();
        EXPECT_FALSE(use(app->borrow()).duplicate);
        expect_busy([&] { use(impatient); });
        app->rollback();
    }
    // Nothing of the refused ones is left to be a duplicate of.
    EXPECT_EQ(total(), 0U);
    const auto first = use(impatient);
    EXPECT_FALSE(first.duplicate);
    app->begin();
    const auto second = use(app->borrow());
    app->commit();
    EXPECT_TRUE(second.duplicate);
    EXPECT_EQ(second.id, first.id);
}

CONFORMANCE_SUITE(errors);

} // namespace
} // namespace posthorn::conformance
