// The ambient correlation on its own: scopes, threads, and what is valid.
#include "core/lineage.hpp"
#include "core/trace_context.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/testing/seeded_random.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace posthorn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ambient_id()
{
    const auto now = correlation_scope::current();
    return now ? now->id() : "nothing";
}

// Proves: COR-01, I22
TEST(correlation_scopes, only_the_number_that_was_given_out_last_goes_back)
{
    const auto of = std::make_shared<correlation>(correlation_start{.id = "order-7"});
    core::drawn_numbers numbers(of);
    EXPECT_EQ(numbers.draw(), "1");
    EXPECT_EQ(numbers.draw(), "2");
    EXPECT_EQ(numbers.draw(), "3");
    numbers.give_back_last();
    EXPECT_EQ(of->sequence(), 2);
    numbers.give_back();
    EXPECT_EQ(of->sequence(), 0);
    EXPECT_TRUE(numbers.empty());
    EXPECT_EQ(numbers.draw(), "1");
    EXPECT_EQ(of->increment_sequence(), 2);
    numbers.give_back();
    EXPECT_EQ(of->sequence(), 2) << "a later one is out: the first stays a gap";
    EXPECT_EQ(of->increment_sequence(), 3);
}

// Proves: COR-01
TEST(correlation_scopes, nothing_is_ambient_unless_a_scope_is_open)
{
    EXPECT_EQ(correlation_scope::current(), nullptr);
    {
        const auto scope = correlation_scope::begin("order-7");
        ASSERT_NE(correlation_scope::current(), nullptr);
        EXPECT_EQ(correlation_scope::current()->id(), "order-7");
        EXPECT_EQ(correlation_scope::current()->sequence(), 0);
    }
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: COR-01
TEST(correlation_scopes, nest_and_restore_what_was_there)
{
    const auto outer = correlation_scope::begin("outer");
    correlation_scope::current()->increment_sequence();
    {
        const auto middle = correlation_scope::begin("middle", 10);
        {
            const auto inner = correlation_scope::begin("inner");
            EXPECT_EQ(ambient_id(), "inner");
            EXPECT_EQ(correlation_scope::current()->increment_sequence(), 1);
        }
        EXPECT_EQ(ambient_id(), "middle");
        EXPECT_EQ(correlation_scope::current()->increment_sequence(), 11);
    }
    EXPECT_EQ(ambient_id(), "outer");
    EXPECT_EQ(correlation_scope::current()->increment_sequence(), 2);
}

// Proves: COR-01
TEST(correlation_scopes, are_restored_when_something_is_thrown)
{
    const auto outer = correlation_scope::begin("outer");
    try {
        const auto inner = correlation_scope::begin("inner");
        throw std::runtime_error("oh");
    } catch (const std::runtime_error&) {
        EXPECT_EQ(ambient_id(), "outer");
    }
    EXPECT_EQ(ambient_id(), "outer");
}

// Proves: COR-01
TEST(correlation_scopes, the_first_number_is_one_and_goes_on_from_where_it_began)
{
    const auto scope = correlation_scope::begin("a");
    EXPECT_EQ(correlation_scope::current()->increment_sequence(), 1);
    EXPECT_EQ(correlation_scope::current()->increment_sequence(), 2);
    const auto later = correlation_scope::begin("b", 41);
    EXPECT_EQ(correlation_scope::current()->increment_sequence(), 42);
}

// Proves: COR-01
TEST(correlation_scopes, eight_threads_of_one_scope_get_each_number_once_and_none_is_missing)
{
    constexpr std::size_t threads = 8;
    constexpr std::size_t each = 10'000;
    const auto scope = correlation_scope::begin("shared");
    std::vector<std::vector<std::int64_t>> drawn(threads);
    {
        std::vector<std::jthread> all;
        for (auto& mine : drawn)
            all.emplace_back(bind_context([&mine] {
                for (std::size_t i = 0; i < each; ++i)
                    mine.push_back(correlation_scope::current()->increment_sequence());
            }));
    }
    std::vector<std::int64_t> numbers;
    for (const auto& mine : drawn)
        numbers.insert(numbers.end(), mine.begin(), mine.end());
    std::ranges::sort(numbers);
    std::vector<std::int64_t> expected(threads * each);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(numbers, expected);
}

// Proves: COR-02
TEST(correlation_scopes, a_thread_of_ones_own_starts_with_nothing)
{
    const auto scope = correlation_scope::begin("here");
    std::string there;
    std::jthread([&] { there = ambient_id(); }).join();
    EXPECT_EQ(there, "nothing");
    EXPECT_EQ(ambient_id(), "here");
}

// Proves: COR-02
TEST(correlation_scopes, bind_context_carries_what_is_ambient_to_another_thread)
{
    std::function<std::string()> bound;
    {
        const auto scope = correlation_scope::begin("carried");
        bound = bind_context([] { return ambient_id(); });
    }
    const auto other = correlation_scope::begin("other");
    EXPECT_EQ(std::async(std::launch::async, bound).get(), "carried");
    EXPECT_EQ(bound(), "carried"); // and here, after its scope
    EXPECT_EQ(ambient_id(), "other");
}

// Proves: COR-02
TEST(correlation_scopes, bind_context_binds_nothing_too_and_gives_the_thread_back_as_it_was)
{
    const auto free = bind_context([] {
        const auto inside = correlation_scope::begin("inside");
        return ambient_id();
    });
    const auto unbound = bind_context([] { return ambient_id(); });
    const auto scope = correlation_scope::begin("here");
    EXPECT_EQ(free(), "inside");
    EXPECT_EQ(unbound(), "nothing");
    const auto throws = bind_context([] { throw std::runtime_error("oh"); });
    EXPECT_THROW(throws(), std::runtime_error);
    EXPECT_EQ(ambient_id(), "here");
}

// Proves: COR-02
TEST(correlation_scopes, bind_context_passes_arguments_and_results_of_any_kind)
{
    const auto scope = correlation_scope::begin("x");
    auto moved = bind_context([own = std::make_unique<int>(3)](std::unique_ptr<int> other) {
        return std::make_unique<int>(*own + *other);
    });
    EXPECT_EQ(*moved(std::make_unique<int>(4)), 7);
    int counter = 0;
    const auto referring = bind_context([&counter]() -> int& { return ++counter; });
    EXPECT_EQ(&referring(), &counter);
}

// Proves: COR-02
TEST(correlation_scopes, a_scope_that_ends_on_a_thread_it_never_reached_leaves_that_thread_alone)
{
    std::string there;
    const auto begins = [&] {
        auto wandering = std::unique_ptr<correlation_scope>(
            new correlation_scope(correlation_scope::begin("wandering")));
        std::jthread([&, mine = std::move(wandering)]() mutable {
            const auto local = correlation_scope::begin("local");
            mine.reset();
            there = ambient_id();
        }).join();
    };
    // A visit gives this thread back, which never sees the end of that scope.
    bind_context(begins)();
    EXPECT_EQ(there, "local");
    EXPECT_EQ(ambient_id(), "nothing");
}

// Proves: COR-01
TEST(correlation_scopes, an_id_that_no_message_could_have_is_refused)
{
    EXPECT_THROW((void)correlation_scope::begin(""), error);
    EXPECT_THROW((void)correlation_scope::begin(std::string(256, 'x')), error);
    EXPECT_THROW((void)correlation_scope::begin(std::string("a\0b", 3)), error);
    EXPECT_THROW((void)correlation_scope::begin("\xff"), error);
    EXPECT_EQ(ambient_id(), "nothing");
    const auto longest = correlation_scope::begin(std::string(255, 'x'));
    EXPECT_EQ(ambient_id().size(), 255U);
}

// Proves: COR-05, COR-06
TEST(correlation_scopes, a_message_is_handled_in_its_own_correlation_or_else_its_id)
{
    delivery which;
    which.receipt.id = message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057").value();
    const auto own = to_string(which.receipt.id);
    EXPECT_EQ(correlation_of(which).id, own);
    EXPECT_EQ(correlation_of(which).cause, own);
    EXPECT_EQ(correlation_of(which).sequence, 0);
    which.correlation_id = "order-7";
    which.causation_id = "click";
    which.headers["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const auto from = correlation_of(which);
    EXPECT_EQ(from.id, "order-7");
    EXPECT_EQ(from.cause, own);
    EXPECT_EQ(from.traceparent, which.headers["traceparent"]);
    which.correlation_id = "\xff"; // written by somebody else, past our checks
    EXPECT_EQ(correlation_of(which).id, own);
}

constexpr std::string_view good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Proves: COR-05
TEST(trace_context, knows_what_is_valid)
{
    EXPECT_TRUE(core::is_traceparent(good));
    EXPECT_TRUE(core::is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
    EXPECT_TRUE(core::is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff"));
    // A later version may have more to say.
    EXPECT_TRUE(core::is_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    EXPECT_TRUE(
        core::is_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
    for (const auto* bad :
         {"", "00", "garbage", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
          "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
          "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          "00-00000000000000000000000000000000-b7ad6b7169203331-01",
          "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
          "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
          "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
          "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01"})
        EXPECT_FALSE(core::is_traceparent(bad)) << bad;
}

// Proves: COR-05
TEST(trace_context, goes_on_with_the_same_trace_and_a_new_span)
{
    testing::seeded_random random(7);
    const auto next = core::next_traceparent(good, random);
    EXPECT_TRUE(core::is_traceparent(next));
    EXPECT_THAT(next, StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
    EXPECT_NE(next.substr(36, 16), good.substr(36, 16));
    EXPECT_NE(core::next_traceparent(good, random), next);
    EXPECT_EQ(next.substr(53), "01");
    // We speak our version, and pass on the one flag that it knows.
    const auto later = core::next_traceparent(
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe-more", random);
    EXPECT_EQ(later.substr(0, 3), "00-");
    EXPECT_EQ(later.substr(53), "00");
    EXPECT_EQ(
        core::next_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0b", random)
            .substr(53),
        "01");
}

class lineages : public ::testing::Test {
protected:
    core::lineage resolve(core::given_lineage given = {}, headers values = {},
                          core::id_maker by = core::id_maker::store)
    {
        sent = std::move(values);
        return core::resolve_lineage(std::move(given), sent, correlation_scope::current().get(), by,
                                     world);
    }

    environment world = environment::system();
    headers sent;
};

// Proves: COR-04
TEST_F(lineages, without_a_scope_a_message_begins_a_correlation_of_its_own)
{
    const auto from = resolve();
    ASSERT_TRUE(from.id);
    EXPECT_EQ(from.correlation_id, to_string(*from.id));
    EXPECT_EQ(from.sequence, "0");
    EXPECT_FALSE(from.numbered);
    EXPECT_EQ(from.causation_id, "");
    const auto id = *message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057");
    EXPECT_EQ(resolve({.id = id}).correlation_id, to_string(id));
}

// Proves: COR-04, COR-06
TEST_F(lineages, in_a_scope_a_message_takes_its_id_its_next_number_and_its_cause)
{
    const auto scope = correlation_scope::begin_from({.id = "order-7", .cause = "message 1"});
    const auto first = resolve();
    EXPECT_FALSE(first.id); // the store makes one, which costs least
    EXPECT_EQ(first.correlation_id, "order-7");
    EXPECT_EQ(first.sequence, "") << "it gets a number when nothing else can refuse it";
    EXPECT_TRUE(first.numbered);
    EXPECT_EQ(first.causation_id, "message 1");
    EXPECT_EQ(correlation_scope::current()->sequence(), 0);
    EXPECT_TRUE(resolve({}, {}, core::id_maker::publisher).id);
}

// Proves: COR-04
TEST_F(lineages, what_is_given_wins_and_draws_no_number)
{
    const auto scope = correlation_scope::begin_from({.id = "order-7", .cause = "message 1"});
    const auto by_option = resolve({.correlation_id = "mine", .causation_id = "click"});
    EXPECT_EQ(by_option.correlation_id, "mine");
    EXPECT_EQ(by_option.causation_id, "click");
    EXPECT_EQ(by_option.sequence, "");
    const auto by_header = resolve({}, {{"posthorn-corr-id", "theirs"},
                                        {"posthorn-corr-seq", "9"},
                                        {"posthorn-causation-id", "tap"},
                                        {"posthorn-msg-id", "01890a5d-ac96-774b-bcce-b302099a8057"},
                                        {"mine", "stays"}});
    EXPECT_EQ(by_header.correlation_id, "theirs");
    EXPECT_EQ(by_header.sequence, "9");
    EXPECT_EQ(by_header.causation_id, "tap");
    EXPECT_EQ(to_string(by_header.id.value()), "01890a5d-ac96-774b-bcce-b302099a8057");
    EXPECT_THAT(sent, ElementsAre(std::pair<const std::string, std::string>("mine", "stays")));
    EXPECT_EQ(correlation_scope::current()->sequence(), 0);
}

// Proves: COR-04
TEST_F(lineages, a_number_without_its_correlation_means_nothing)
{
    const headers copied{{"posthorn-corr-seq", "9"}};
    EXPECT_EQ(resolve({}, copied).sequence, "0");
    const auto scope = correlation_scope::begin("order-7");
    EXPECT_EQ(resolve({}, copied).sequence, "");
    EXPECT_TRUE(resolve({}, copied).numbered);
    EXPECT_EQ(sent, headers{});
}

// Proves: COR-04
TEST_F(lineages, contradictions_and_nonsense_are_refused)
{
    EXPECT_THROW((void)resolve({.correlation_id = "a"}, {{"posthorn-corr-id", "b"}}), error);
    EXPECT_NO_THROW((void)resolve({.correlation_id = "a"}, {{"posthorn-corr-id", "a"}}));
    EXPECT_THROW((void)resolve({.causation_id = "a"}, {{"posthorn-causation-id", "b"}}), error);
    EXPECT_THROW((void)resolve({}, {{"posthorn-msg-id", "seven"}}), error);
    for (const auto* bad : {"first", "-1", "1.5", "1234567890123456789"})
        EXPECT_THROW((void)resolve({.correlation_id = "a"}, {{"posthorn-corr-seq", bad}}), error);
}

// Proves: COR-05
TEST_F(lineages, a_valid_trace_travels_on_with_a_new_span_and_any_other_is_dropped)
{
    const auto scope = correlation_scope::begin_from(
        {.id = "x", .traceparent = std::string(good), .tracestate = "vendor=1"});
    (void)resolve();
    EXPECT_THAT(sent["traceparent"], StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
    EXPECT_NE(sent["traceparent"], good);
    EXPECT_EQ(sent["tracestate"], "vendor=1");
    // The caller's own span stays as it is.
    const std::string own = "00-11111111111111111111111111111111-2222222222222222-01";
    (void)resolve({}, {{"traceparent", own}});
    EXPECT_EQ(sent, (headers{{"traceparent", own}}));
    // What is not valid gives way to the scope's, and elsewhere to nothing.
    (void)resolve({}, {{"Traceparent", "broken"}, {"tracestate", "broken=1"}});
    EXPECT_EQ(sent.size(), 2U);
    EXPECT_TRUE(core::is_traceparent(sent["traceparent"]));
    const auto plain = correlation_scope::begin_from({.id = "y", .traceparent = "broken"});
    (void)resolve({}, {{"traceparent", "broken"}, {"tracestate", "broken=1"}});
    EXPECT_EQ(sent, headers{});
}

} // namespace
} // namespace posthorn
