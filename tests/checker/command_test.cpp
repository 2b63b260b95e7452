// The program: its exit codes, its words, and that it calls nothing clean that it could not judge.
#include "checker/command.hpp"
#include "checker/event_json.hpp"
#include "checker/scratch_folder.hpp"
#include "checker/script.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace posthorn::checker {
namespace {

using ::testing::HasSubstr;

class checker_command : public ::testing::Test {
protected:
    scratch_folder folder;
    std::ostringstream out;
    std::ostringstream err;

    int run(std::vector<std::string> arguments)
    {
        out.str("");
        err.str("");
        return run_checker(std::move(arguments), out, err);
    }

    /// Writes the script to files. Returns: the arguments that name them.
    std::vector<std::string> saved(script& what)
    {
        std::string lines;
        for (const auto& each : what.told.events)
            lines += to_line(each) + "\n";
        what.found.read_at = what.now();
        write_final(what.found, folder.file("final"));
        return {folder.write("history", lines).string(), "--final", folder.file("final").string()};
    }

    static script one_message()
    {
        script result;
        result.committed(1);
        result.handled(1, 1);
        result.row(1, message_state::done);
        return result;
    }
};

TEST_F(checker_command, a_clean_run_is_summed_up)
{
    auto clean = one_message();
    EXPECT_EQ(run(saved(clean)), 0) << err.str();
    EXPECT_THAT(out.str(), HasSubstr("1 message, 1 start, 0 faults, "));
    EXPECT_THAT(out.str(), HasSubstr(" checks, 0 violations\n"));
    EXPECT_THAT(out.str(), HasSubstr("I20 0")); // no stop event: nothing was shown
}

TEST_F(checker_command, violations_are_told_in_sentences)
{
    auto broken = one_message();
    broken.found.messages.clear();
    EXPECT_EQ(run(saved(broken)), 1);
    EXPECT_THAT(out.str(), HasSubstr("I2: message " + to_string(id(1)) +
                                     " was started and has vanished from the tables\n"));
    EXPECT_THAT(out.str(), HasSubstr(", 1 violation\n"));
}

TEST_F(checker_command, programs_get_json)
{
    auto broken = one_message();
    broken.found.messages.clear();
    auto arguments = saved(broken);
    arguments.push_back("--json");
    EXPECT_EQ(run(arguments), 1);
    const auto told = nlohmann::json::parse(out.str());
    EXPECT_EQ(told.at("messages"), 1);
    EXPECT_EQ(told.at("violations").at(0).at("promise"), "I2");
    EXPECT_EQ(told.at("violations").at(0).at("message"), to_string(id(1)));
    EXPECT_GT(told.at("promises").at("I1").at("checks"), 0);
}

TEST_F(checker_command, an_empty_history_is_refused)
{
    script nothing;
    EXPECT_EQ(run(saved(nothing)), 2);
    EXPECT_THAT(err.str(), HasSubstr("nothing to judge"));
    nothing.tell(stop_event{});
    EXPECT_EQ(run(saved(nothing)), 2);
}

TEST_F(checker_command, wrong_usage_is_refused)
{
    auto clean = one_message();
    const auto good = saved(clean);
    EXPECT_EQ(run({}), 2);
    EXPECT_EQ(run({good[0]}), 2);
    EXPECT_EQ(run({good[0], good[1], good[2], "--store", "sqlite::memory:"}), 2);
    EXPECT_EQ(run({good[0], good[1], good[2], "--settle-within", "soon"}), 2);
    EXPECT_EQ(run({good[0], good[1], good[2], "--attempts-max", "-1"}), 2);
    EXPECT_EQ(run({folder.file("missing").string(), good[1], good[2]}), 2);
    EXPECT_EQ(run({good[0], "--store", "sqlite:" + folder.file("missing").string()}), 2);
    EXPECT_NE(err.str(), "");
}

TEST_F(checker_command, options_set_the_bounds)
{
    script run_of_two;
    run_of_two.committed(1);
    run_of_two.started(1, 1);
    run_of_two.settled(1, 1, settled_as::retrying);
    run_of_two.handled(1, 2);
    run_of_two.row(1, message_state::done);
    auto arguments = saved(run_of_two);
    arguments.insert(arguments.end(), {"--attempts-max", "1"});
    EXPECT_EQ(run(arguments), 1);
    EXPECT_THAT(out.str(), HasSubstr("I5: "));
    arguments.back() = "2";
    arguments.insert(arguments.end(), {"--settle-within", "5s", "--may-wait", "orders"});
    EXPECT_EQ(run(arguments), 0) << out.str() << err.str();
}

} // namespace
} // namespace posthorn::checker
