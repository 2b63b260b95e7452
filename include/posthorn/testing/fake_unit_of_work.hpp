// Units of work for tests without a store.
#pragma once

#include <posthorn/unit_of_work.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

namespace posthorn::testing {

/// Remembers what it was asked for, and writes nothing: writers are not called. Saving takes the
/// events from their entities, and runs the actions.
class fake_unit_of_work : public unit_of_work {
public:
    using unit_of_work::save_changes;

    void write(writer /*what*/) override { ++writers; }
    void track(domain_events& of) override { tracked_.push_back(&of); }
    void on_commit(std::function<void()> action) override { actions_.push_back(std::move(action)); }

    std::size_t save_changes() override
    {
        ++save_calls;
        if (fails_with)
            std::rethrow_exception(std::exchange(fails_with, nullptr));
        auto rows = std::exchange(writers, 0);
        for (auto* each : std::exchange(tracked_, {})) {
            saved.insert(saved.end(), each->pending().begin(), each->pending().end());
            rows += each->pending().size();
            each->clear();
        }
        for (const auto& action : std::exchange(actions_, {}))
            action();
        return rows;
    }

    std::size_t save_calls = 0;
    std::size_t writers = 0;         ///< since the last saving
    std::vector<domain_event> saved; ///< of all savings
    std::exception_ptr fails_with;   ///< what the next saving throws

private:
    std::vector<domain_events*> tracked_;
    std::vector<std::function<void()>> actions_;
};

/// Does nothing, and says that one row was written.
class stub_unit_of_work : public unit_of_work {
public:
    using unit_of_work::save_changes;

    void write(writer /*what*/) override {}
    void track(domain_events& /*of*/) override {}
    void on_commit(std::function<void()> /*action*/) override {}
    std::size_t save_changes() override { return 1; }
};

} // namespace posthorn::testing
