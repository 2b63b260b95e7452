// The pipeline of commands on every store: what runs in which order, and what is kept of it.
#include "conformance/conformance_test.hpp"
#include <posthorn/commands.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

const std::string some_key = "6f1c3a52-7c1b-4a5e-9c58-2f5a37c60b11";

struct register_user {
    std::string email;
    std::string name;
    std::string idempotency_key = some_key;
};

struct ping {
    std::string text;
};

struct nobody_handles {};

} // namespace
} // namespace posthorn::conformance

template <>
struct posthorn::command_type<posthorn::conformance::register_user> {
    static constexpr std::string_view name = "users.register";
    using result = std::string;
};
template <>
struct posthorn::command_type<posthorn::conformance::ping> {
    static constexpr std::string_view name = "ping";
    using result = void;
};
template <>
struct posthorn::command_type<posthorn::conformance::nobody_handles> {
    static constexpr std::string_view name = "nobody";
    using result = void;
};

namespace posthorn::conformance {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class pipelines : public conformance_test {
protected:
    /// A pipeline that notes what happens, with one check and one handler.
    command_pipeline make()
    {
        command_pipeline result(db());
        result.validate<register_user>([this](const register_user& what, problems& found) {
            seen.emplace_back("validation");
            if (what.email.empty())
                found.add("email", "is empty");
            if (what.name.empty())
                found.add("name", "is empty");
        });
        result.handle<register_user>([this](const register_user& what, transaction& tx) {
            seen.emplace_back("handler");
            enqueue(tx, message{"registered", what.email});
            return "user of " + what.email;
        });
        return result;
    }

    /// A behaviour that only notes when it is passed.
    behaviour noting(const std::string& name)
    {
        return [this, name](command_context& which, const next_behaviour& next) {
            seen.push_back(name + (which.tx != nullptr ? " inside" : " outside"));
            next();
            seen.push_back("after " + name);
        };
    }

    std::vector<std::string> seen;
};

} // namespace

// Proves: IDM-07, IDM-02
TEST_P(pipelines, a_command_is_checked_then_known_then_handled)
{
    auto commands = make();
    commands.use(stage::handler, noting("third"));
    commands.use(stage::idempotency, noting("second"));
    commands.use(stage::validation, noting("first"));
    const auto sent = commands.send(register_user{"a@b", "Ann"});
    EXPECT_FALSE(sent.refused());
    EXPECT_EQ(sent.outcome.answer, command_answer::executed);
    EXPECT_EQ(sent.value(), "user of a@b");
    EXPECT_THAT(seen, ElementsAre("first outside", "validation", "second outside", "third inside",
                                  "handler", "after third", "after second", "after first"));
    seen.clear();
    const auto again = commands.send(register_user{"a@b", "Ann"});
    EXPECT_EQ(again.outcome.answer, command_answer::replayed);
    EXPECT_EQ(again.value(), "user of a@b");
    EXPECT_THAT(seen, ElementsAre("first outside", "validation", "second outside", "after second",
                                  "after first"));
    EXPECT_EQ(total(), 1U);
}

// Proves: IDM-07
TEST_P(pipelines, a_refused_command_names_every_field_and_leaves_nothing)
{
    auto commands = make();
    const auto sent = commands.send(register_user{"", "", "not a uuid"});
    EXPECT_TRUE(sent.refused());
    EXPECT_THAT(sent.problems,
                ElementsAre(problem{"idempotency_key", "must be a UUID that is not nil"},
                            problem{"email", "is empty"}, problem{"name", "is empty"}));
    const auto thrown = thrown_by([&] { (void)sent.value(); });
    EXPECT_EQ(thrown.code(), error_code::invalid_argument);
    EXPECT_THAT(thrown.what(),
                AllOf(HasSubstr("idempotency_key"), HasSubstr("email"), HasSubstr("name")));
    EXPECT_THAT(seen, ElementsAre("validation"));
    EXPECT_THAT(list_keys(db()), IsEmpty());

    const auto nil =
        commands.send(register_user{"a@b", "Ann", "00000000-0000-0000-0000-000000000000"});
    EXPECT_TRUE(nil.refused());
    EXPECT_EQ(total(), 0U);
}

// Proves: IDM-07, IDM-03
TEST_P(pipelines, another_request_under_the_same_key_is_told_so)
{
    auto commands = make();
    EXPECT_EQ(commands.send(register_user{"a@b", "Ann"}, "ann").outcome.answer,
              command_answer::executed);
    EXPECT_EQ(commands.send(register_user{"b@b", "Bob"}, "bob").outcome.answer,
              command_answer::mismatch);
    EXPECT_EQ(total(), 1U);
}

// Proves: IDM-07, I1
TEST_P(pipelines, a_behaviour_that_refuses_late_undoes_everything)
{
    auto commands = make();
    bool refuse = true;
    commands.use(stage::handler, [&](command_context& which, const next_behaviour& next) {
        next();
        if (refuse)
            which.problems.add("name", "is taken");
    });
    const auto sent = commands.send(register_user{"a@b", "Ann"});
    EXPECT_THAT(sent.problems, ElementsAre(problem{"name", "is taken"}));
    EXPECT_FALSE(sent.outcome.result);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(find_key(db(), "users.register", some_key)->state, key_state::failed);
    refuse = false;
    EXPECT_EQ(commands.send(register_user{"a@b", "Ann"}).value(), "user of a@b");
}

// Proves: IDM-07, I1
TEST_P(pipelines, a_handler_that_refuses_undoes_everything_and_names_every_field)
{
    command_pipeline commands(db());
    bool refuse = true;
    commands.handle<register_user>(
        [&](const register_user& what, transaction& tx, problems& found) {
            enqueue(tx, message{"registered", what.email});
            if (refuse) {
                found.add("email", "is taken");
                found.add("name", "is taken");
            }
            return "user of " + what.email;
        });
    const auto sent = commands.send(register_user{"a@b", "Ann"});
    EXPECT_THAT(sent.problems,
                ElementsAre(problem{"email", "is taken"}, problem{"name", "is taken"}));
    EXPECT_FALSE(sent.outcome.result);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(find_key(db(), "users.register", some_key)->state, key_state::failed);
    refuse = false;
    EXPECT_EQ(commands.send(register_user{"a@b", "Ann"}).value(), "user of a@b");
    EXPECT_EQ(total(), 1U);
}

// Proves: IDM-07
TEST_P(pipelines, a_command_without_a_key_runs_each_time)
{
    command_pipeline commands(db());
    int runs = 0;
    commands.handle<ping>([&](const ping& what, transaction& tx) {
        ++runs;
        enqueue(tx, message{"pinged", what.text});
        if (what.text == "bad")
            throw std::runtime_error("broken");
    });
    EXPECT_EQ(commands.send(ping{"1"}).outcome.answer, command_answer::executed);
    EXPECT_EQ(commands.send(ping{"1"}).outcome.answer, command_answer::executed);
    EXPECT_THROW(commands.send(ping{"bad"}), std::runtime_error);
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(total(), 2U);
    EXPECT_THAT(list_keys(db()), IsEmpty());
}

// Proves: IDM-07
TEST_P(pipelines, a_command_has_exactly_one_handler)
{
    auto commands = make();
    const auto twice = thrown_by([&] {
        commands.handle<register_user>(
            [](const register_user&, transaction&) { return std::string(); });
    });
    EXPECT_EQ(twice.code(), error_code::invalid_argument);
    EXPECT_EQ(thrown_by([&] { (void)commands.send(nobody_handles{}); }).code(),
              error_code::not_found);
}

// Proves: IDM-07, IDM-01
TEST_P(pipelines, a_stop_keeps_a_command_from_its_handler)
{
    auto commands = make();
    commands.handle<ping>([this](const ping&, transaction&) { seen.emplace_back("ping"); });
    std::stop_source stop;
    stop.request_stop();
    const auto told =
        commands.send(register_user{.email = "a@b", .name = "a"}, {}, stop.get_token());
    EXPECT_FALSE(told.refused());
    EXPECT_EQ(told.outcome.answer, command_answer::stopped);
    EXPECT_EQ(commands.send(ping{}, {}, stop.get_token()).outcome.answer, command_answer::stopped);
    EXPECT_THAT(seen, ElementsAre("validation"));
    EXPECT_FALSE(find_key(db(), "users.register", some_key));
    EXPECT_EQ(commands.send(ping{}).outcome.answer, command_answer::executed);
}

CONFORMANCE_SUITE(pipelines);

} // namespace posthorn::conformance
