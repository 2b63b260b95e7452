// What tests of interleavings stand on: players on handles of their own, whose steps are brought
// into every order.
#pragma once

#include "conformance/conformance_test.hpp"
#include "conformance/players.hpp"
#include "hang_limit.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::conformance {

/// The test moves the time of day; waits for locks take real time.
class steered_clock final : public clock {
public:
    explicit steered_clock(const clock& of_the_test) : of_the_test_(of_the_test) {}

    [[nodiscard]] timestamp now() const override { return of_the_test_.now(); }
    [[nodiscard]] std::optional<timestamp> database_time() const override { return now(); }
    [[nodiscard]] monotonic_time monotonic() const override { return real_->monotonic(); }
    [[nodiscard]] monotonic_time since_boot() const override { return of_the_test_.since_boot(); }
    void pause(duration length) const override { real_->pause(length); }

private:
    const clock& of_the_test_;
    std::shared_ptr<clock> real_ = environment::system().clock;
};

class interleaved_test : public conformance_test {
protected:
    using script = std::vector<player::step>;

    /// Plays the scripts in every order; `before` prepares each time, and `after` looks.
    void in_every_order(const std::vector<script>& scripts, const std::function<void()>& before,
                        const std::function<void()>& after)
    {
        while (players_.size() < scripts.size())
            players_.emplace_back(under_test().open({.environment = steered_}));
        std::vector<std::size_t> steps;
        for (const auto& each : scripts)
            steps.push_back(each.size());
        for (const auto& order : orders_of(steps)) {
            std::string words;
            for (const auto who : order)
                words += static_cast<char>('A' + who);
            SCOPED_TRACE("in the order " + words);
            before();
            for (std::size_t who = 0; who < scripts.size(); ++who)
                players_[who].learn(scripts[who]);
            play(order);
            if (HasFatalFailure())
                return;
            after();
            if (HasFailure())
                return;
            clear();
        }
    }

    const std::vector<std::string> orders{"orders"};

private:
    void play(const std::vector<std::size_t>& order)
    {
        // Long enough for a step that need not wait. One that is slower for another reason is only
        // played later than planned: another order, in which all promises hold, too.
        constexpr auto a_step = 10ms;
        for (const auto who : order) {
            players_[who].allow_one_step();
            for (auto& each : players_)
                (void)each.rests_within(a_step);
        }
        for (auto& each : players_) {
            ASSERT_TRUE(each.rests_within(test::hang_limit)) << "one of them waits for ever";
            if (const auto trouble = each.trouble()) {
                ASSERT_NO_THROW(std::rethrow_exception(trouble));
            }
        }
    }

    /// Leaves nothing that the next round could claim.
    void clear()
    {
        for (bool more = true; more;) {
            clock().advance(1h);
            box().reap_expired();
            clock().advance(1h);
            const auto rest = box().claim(alice, {.unpark = orders});
            box().acknowledge(alice, rest.receipts());
            more = !rest.empty();
        }
        const auto left = count_messages(db());
        ASSERT_EQ(left.ready + left.waiting + left.parked, 0);
    }

    environment steered_{.clock = {}, .random = environment::system().random, .log = {}};
    std::deque<player> players_; // players stay where they are: their threads know them

protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (!IsSkipped())
            steered_.clock = std::make_shared<steered_clock>(clock());
    }
};

} // namespace posthorn::conformance
