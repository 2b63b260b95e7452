// Histories survive being written by many and being cut off by a kill, and are read strictly.
#include "checker/event_json.hpp"
#include "checker/history.hpp"
#include "checker/scratch_folder.hpp"
#include "checker/script.hpp"
#include <posthorn/error.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <gmock/gmock.h>

#include <array>
#include <thread>

namespace posthorn::checker {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class checker_history : public ::testing::Test {
protected:
    scratch_folder folder;
    std::shared_ptr<posthorn::testing::manual_clock> clock =
        std::make_shared<posthorn::testing::manual_clock>();

    history read(std::string_view text)
    {
        return read_history(std::array{folder.write("read", text)});
    }

    void expect_refused(std::string_view text, const std::string& words)
    {
        EXPECT_THAT([&] { (void)read(text); }, ThrowsMessage<error>(HasSubstr(words)));
    }
};

TEST_F(checker_history, every_kind_of_event_comes_back_as_it_was_written)
{
    const std::vector<happening> all{
        enqueue_event{.id = id(1),
                      .topic = "orders",
                      .key = "key",
                      .due_at = clock->now() + 1s,
                      .expires_at = clock->now() + 2s,
                      .transaction = "t"},
        feed_event{.from = {.source = "shop", .id = "4711"},
                   .topic = "orders",
                   .key = "key",
                   .transaction = "w"},
        send_event{.from = {.source = "shop", .id = "4711"}, .key = "key"},
        transaction_event{"t", transaction_end::committed},
        transaction_event{"u", transaction_end::rolled_back},
        transaction_event{"v", transaction_end::unknown},
        start_event{.id = id(1), .fence = fence{7}, .attempt = 2},
        settle_event{.id = id(1), .fence = fence{7}, .answer = settled_as::released},
        settle_event{.id = id(1), .fence = fence{7}, .outcome = outcome::kind::fail, .answer = {}},
        cancel_event{.id = id(1), .answer = cancel_answer::too_late},
        cancel_event{.id = id(1), .answer = {}},
        redrive_event{id(1)},
        purge_event{id(1)},
        fault_event{.kind = fault_kind::killed, .worker = "worker 1"},
        fault_event{.kind = fault_kind::lease_expired, .id = id(1), .fence = fence{7}},
        fault_event{.kind = fault_kind::server},
        fault_event{.kind = fault_kind::clock, .shift = -3s},
        stop_event{},
    };
    {
        const history_writer writer(folder.file("all"), "somebody", clock);
        for (const auto& each : all) {
            const auto asked_at = writer.now();
            clock->advance(5ms);
            writer.record(each, asked_at);
        }
    }
    const auto back = read_history(std::array{folder.file("all")});
    ASSERT_EQ(back.events.size(), all.size());
    std::string again;
    for (const auto& each : back.events) {
        EXPECT_EQ(each.by, "somebody");
        EXPECT_EQ(each.at - each.asked_at, 5ms);
        again += to_line(each) + "\n";
    }
    EXPECT_EQ(again, folder.read("all"));
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(back.events[i].what.index(), all[i].index());
    EXPECT_EQ(std::get<enqueue_event>(back.events[0].what).expires_at,
              std::get<enqueue_event>(all[0]).expires_at);
    EXPECT_EQ(std::get<settle_event>(back.events[8].what).answer, std::nullopt);
    EXPECT_EQ(std::get<fault_event>(back.events[16].what).shift, -3s);
}

TEST_F(checker_history, many_threads_may_write_one_file)
{
    constexpr int lines = 500;
    {
        const history_writer writer(folder.file("shared"), "all", clock);
        std::vector<std::jthread> threads;
        for (int thread = 0; thread < 4; ++thread)
            threads.emplace_back([&] {
                for (int i = 0; i < lines; ++i)
                    writer.record(start_event{.id = id(i), .fence = fence{i}});
            });
    }
    EXPECT_EQ(read_history(std::array{folder.file("shared")}).events.size(), 4U * lines);
}

TEST_F(checker_history, a_torn_last_line_is_left_out_and_counted)
{
    const std::string whole = R"({"event":"stop","at":1,"by":"me"})";
    const auto told = read(whole + "\n" + whole.substr(0, 20));
    EXPECT_EQ(told.events.size(), 1U);
    EXPECT_EQ(told.torn_lines, 1U);
    EXPECT_EQ(read(whole + "\n").torn_lines, 0U);
}

TEST_F(checker_history, a_malformed_line_is_refused_with_its_place)
{
    const std::string good = R"({"event":"stop","at":1,"by":"me"})"
                             "\n";
    expect_refused(good + "{\"event\":\"st\n" + good, "read:2: this is not a JSON object");
    expect_refused("\n", "read:1: this is not a JSON object");
    expect_refused(R"({"event":"stop","by":"me"})"
                   "\n",
                   "read:1: 'at' is missing");
    expect_refused(R"({"event":"stop","at":"now","by":"me"})"
                   "\n",
                   "'at' is not a whole number");
    expect_refused(R"({"event":"stopped","at":1,"by":"me"})"
                   "\n",
                   "'stopped' is not a known event");
    expect_refused(R"({"event":"stop","at":1,"by":"me","who":"me"})"
                   "\n",
                   "'who' is not a field of this line");
    expect_refused(R"({"event":"stop","at":1,"asked_at":2,"by":"me"})"
                   "\n",
                   "'asked_at' is later than 'at'");
    expect_refused(R"({"event":"redriven","at":1,"by":"me","id":"7"})"
                   "\n",
                   "'id' is not a message id");
    expect_refused(R"({"event":"cancel","at":1,"by":"me","answer":"yes","id":")" +
                       to_string(id(1)) + "\"}\n",
                   "'yes' is not a known answer");
}

TEST_F(checker_history, a_dump_of_the_tables_comes_back_as_it_was_written)
{
    script run;
    run.committed(1, "key");
    run.row(1, message_state::dead).blocks_key = true;
    run.row(2, message_state::ready).redrives = 3;
    run.found.read_at = run.now();
    write_final(run.found, folder.file("dump"));
    const auto back = read_final(folder.file("dump"));
    EXPECT_EQ(back.read_at, run.now());
    ASSERT_EQ(back.messages.size(), 2U);
    EXPECT_EQ(back.messages[0].id, id(1));
    EXPECT_EQ(back.messages[0].ordering_key, "key");
    EXPECT_TRUE(back.messages[0].blocks_key);
    EXPECT_EQ(back.messages[0].finished_at, run.found.messages[0].finished_at);
    EXPECT_EQ(back.messages[1].state, message_state::ready);
    EXPECT_EQ(back.messages[1].redrives, 3);
    EXPECT_EQ(back.messages[1].finished_at, std::nullopt);
}

TEST_F(checker_history, a_dump_that_is_empty_or_cut_off_is_refused)
{
    const auto reading = [&](std::string_view text) {
        return [this, text] { (void)read_final(folder.write("dump", text)); };
    };
    EXPECT_THAT(reading(""), ThrowsMessage<error>(HasSubstr("dump is empty")));
    EXPECT_THAT(reading("{\"read_at\":1}\n{\"id\""), ThrowsMessage<error>(HasSubstr("cut off")));
    EXPECT_THAT(reading("{\"read_at\":1}\n{}\n"),
                ThrowsMessage<error>(AllOf(HasSubstr("dump:2:"), HasSubstr("'id' is missing"))));
}

} // namespace
} // namespace posthorn::checker
