// Schemas and databases that tests have left as good as new, for the next tests of this process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace posthorn::conformance {

/// Requires: tests of one process run one after the other. `Renewable` is made fresh, and its
/// `renew` says whether it is as fresh again.
template <class Renewable>
class spares final : public ::testing::EmptyTestEventListener {
public:
    [[nodiscard]] static std::unique_ptr<Renewable> take()
    {
        auto& idle = here().idle_;
        if (idle.empty())
            return std::make_unique<Renewable>();
        auto result = std::move(idle.back());
        idle.pop_back();
        return result;
    }

    /// Keeps it if nothing of the test can be found in it, and drops it otherwise.
    static void give_back(std::unique_ptr<Renewable> used)
    {
        if (here().has_use_ && !::testing::Test::HasFailure() && used->renew())
            here().idle_.push_back(std::move(used));
    }

    void OnTestIterationStart(const ::testing::UnitTest& /*all*/, int /*which*/) override
    {
        has_use_ = true;
    }
    void OnEnvironmentsTearDownStart(const ::testing::UnitTest& /*all*/) override
    {
        has_use_ = false;
        idle_.clear();
    }

private:
    static spares& here()
    {
        static auto* const one = [] {
            auto made = std::make_unique<spares>();
            auto* const result = made.get();
            ::testing::UnitTest::GetInstance()->listeners().Append(made.release());
            return result;
        }();
        return *one;
    }

    std::vector<std::unique_ptr<Renewable>> idle_;
    bool has_use_ = true;
};

} // namespace posthorn::conformance
