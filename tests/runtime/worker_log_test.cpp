// What a worker tells the log of its own work: at which level, once, on one line, no payload.
#include "runtime/worker_test.hpp"
#include "store/contract/hurry.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace posthorn::conformance {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class worker_logs : public worker_test {
protected:
    /// A handle with a log of which every line is kept after its level. All of a test goes through
    /// it: a store in memory has no other.
    store& listened_to(log_level from = log_level::debug)
    {
        auto noted = world();
        noted.log = log_sink(
            [lines = lines_](log_level level, std::string_view line) {
                constexpr std::array names{"debug ", "info ", "warning ", "error "};
                lines->add(names.at(static_cast<std::size_t>(level)) + std::string(line));
            },
            from);
        return where_.emplace(under_test().open({.environment = noted}));
    }

    message_id add_to(store& where, const std::string& topic)
    {
        return enqueue(where, {topic, "payload"}).id;
    }

    [[nodiscard]] std::vector<std::string> lines() const { return lines_->all(); }
    [[nodiscard]] std::vector<std::string> lines_with(const std::string& part) const
    {
        auto all = lines();
        std::erase_if(all, [&](const auto& each) { return each.find(part) == std::string::npos; });
        return all;
    }

    static void handle_all(const store& where, worker_options options = steady())
    {
        worker one(where, std::move(options));
        one.handle("orders", [](const delivery_view&) {});
        one.handle("mail", [](const delivery_view&) { throw std::runtime_error("no\nway"); });
        one.handle("cards", [](const delivery_view&) { return posthorn::fail("refused"); });
        one.handle("inside", [](transactional_delivery<>&) {});
        one.process_outbox();
    }

private:
    std::optional<store> where_;
    std::shared_ptr<notes> lines_ = std::make_shared<notes>();
};

// Proves: OPS-04
TEST_P(worker_logs, tell_of_each_message_what_became_of_it)
{
    auto& where = listened_to();
    const auto done = add_to(where, "orders");
    const auto inside = add_to(where, "inside");
    const auto failed = add_to(where, "mail");
    const auto dead = add_to(where, "cards");
    const auto parked = add_to(where, "unknown");
    handle_all(where);
    const auto line = [](message_id id, const char* topic) {
        return fmt::format("message {} (topic '{}', attempt 1) ", to_string(id), topic);
    };
    EXPECT_THAT(lines(), Contains("debug " + line(done, "orders") + "is done"));
    EXPECT_THAT(lines(), Contains("debug " + line(inside, "inside") + "is done"));
    EXPECT_THAT(lines(), Contains("debug " + line(parked, "unknown") + "is parked"));
    EXPECT_THAT(lines(), Contains("warning " + line(failed, "mail") +
                                  "failed and is tried again later: no way"));
    EXPECT_THAT(lines(), Contains("error " + line(dead, "cards") + "is dead: refused"));
    for (const auto id : {done, inside, failed, dead, parked})
        EXPECT_EQ(lines_with(to_string(id)).size(), 1U) << "each of them once";
    EXPECT_THAT(lines(), Not(Contains(HasSubstr("payload"))));
}

// Proves: OPS-04
TEST_P(worker_logs, tell_of_the_start_and_the_end_of_a_run)
{
    auto& where = listened_to(log_level::info);
    const auto id = add_to(where, "orders");
    worker one(where, steady());
    one.handle("orders", [](const delivery_view&) {});
    background running(one);
    ASSERT_TRUE(eventually([&] { return find_message(where, id)->state == message_state::done; }));
    EXPECT_THAT(lines(), ElementsAre("info worker 'carol' begins, with up to 4 handlers at once"));
    running.end();
    EXPECT_THAT(lines_with("has ended"),
                ElementsAre("info worker 'carol' has ended: 1 done, 0 to try again, 0 dead, 0 "
                            "given back, 0 parked, 0 lost, 0 left running"));
    one.process_outbox();
    EXPECT_EQ(lines_with("begins").size(), 1U) << "one pass is no event";
}

// Proves: OPS-04
TEST_P(worker_logs, make_no_line_that_nobody_takes)
{
    auto& where = listened_to(log_level::error);
    for (const auto* topic : {"orders", "mail", "cards"})
        add_to(where, topic);
    handle_all(where);
    EXPECT_EQ(lines().size(), 1U);
    EXPECT_EQ(lines_with("is dead").size(), 1U);
}

// Proves: OPS-04
TEST_P(worker_logs, are_silent_where_hooks_tell_it)
{
    auto& where = listened_to();
    for (const auto* topic : {"orders", "mail", "cards"})
        add_to(where, topic);
    auto options = steady();
    options.log_activity = false;
    handle_all(where, options);
    EXPECT_THAT(lines(), IsEmpty());
}

// Proves: OPS-04
TEST_P(worker_logs, of_a_loop_around_the_outbox_tell_of_deaths_unless_it_does_not_want_that)
{
    auto& where = listened_to();
    for (const bool wanted : {true, false}) {
        const auto id = add_to(where, "orders");
        outbox one(where, {.log_deaths = wanted});
        const auto taken = one.claim(bob);
        ASSERT_EQ(taken.size(), 1U);
        const std::vector receipts{taken.deliveries.front().receipt};
        one.fail(bob, receipts, "broken");
        EXPECT_EQ(lines_with(to_string(id)).size(), wanted ? 1U : 0U);
    }
    EXPECT_THAT(lines_with("is dead"), ElementsAre(HasSubstr("error message ")));
}

// Proves: OPS-04, F28
TEST_P(worker_logs, tell_of_the_death_of_a_message_that_no_handler_is_given)
{
    const auto bad = add();
    const auto position = look(bad).position;
    auto tx = db().begin();
    const std::string nested = R"({"a":)" + std::string(100, '[') + std::string(100, ']') + "}";
    under_test().run_in(tx, fmt::format("UPDATE {} SET headers = {} WHERE seq = {}",
                                        under_test().table_of_messages(), sql_quoted(nested),
                                        position));
    tx.commit();
    handle_all(db());
    EXPECT_EQ(state_of(bad), message_state::dead);
    EXPECT_EQ(logged("message " + to_string(bad) + " is dead"), 1U);
}

// Proves: OPS-04
TEST_P(worker_logs, tell_of_no_death_that_was_undone)
{
    const auto good = add();
    const auto bad = add();
    auto options = steady_retries(1s, 1);
    options.hooks = {[&](transaction&, std::span<const settled_message> what) {
        for (const auto& each : what)
            if (each.id == bad)
                throw 42;
    }};
    auto one = box_with(options);
    const auto taken = one.claim(bob, {.lease = 1s});
    ASSERT_EQ(taken.size(), 2U);
    const std::vector both{taken.deliveries[0].receipt, taken.deliveries[1].receipt};
    EXPECT_THROW(one.fail(bob, both, "broken"), int);
    EXPECT_EQ(logged("is dead"), 0U);
    clock().advance(2s);
    const contract::hurry as_workers_are;
    EXPECT_EQ(one.reap_expired().dead, 1U);
    EXPECT_EQ(logged("message " + to_string(good) + " is dead"), 1U);
    EXPECT_EQ(logged("message " + to_string(bad) + " is dead"), 0U);
    EXPECT_EQ(logged("cannot take back message " + to_string(bad)), 1U);
    EXPECT_EQ(logged("took back"), 0U) << "the batch as a whole was not";
}

CONFORMANCE_SUITE(worker_logs);

} // namespace
} // namespace posthorn::conformance
