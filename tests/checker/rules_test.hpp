// What the tests of the rules share: a run to write down, and the verdict on it.
#pragma once

#include "checker/script.hpp"

#include <gmock/gmock.h>

#include <string>

namespace posthorn::checker {

inline constexpr auto done = message_state::done;
inline constexpr auto dead = message_state::dead;

class rules_test : public ::testing::Test {
protected:
    script run;

    void expect_broken(const std::string& promise, const std::string& words)
    {
        EXPECT_THAT(run.broken(), ::testing::UnorderedElementsAre(promise));
        EXPECT_THAT(run.sentences(), ::testing::Contains(::testing::HasSubstr(words)));
    }

    void expect_clean() { EXPECT_THAT(run.sentences(), ::testing::IsEmpty()); }
};

} // namespace posthorn::checker
