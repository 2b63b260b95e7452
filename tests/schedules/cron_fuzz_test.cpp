// Expressions that nobody would write: each is refused in words, or means something.
#include "core/cron.hpp"
#include <posthorn/error.hpp>
#include <posthorn/schedule.hpp>

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>

namespace posthorn {
namespace {

using namespace std::chrono;

class scribbler {
public:
    explicit scribbler(unsigned seed) : chance_(seed) {}

    std::string noise()
    {
        static constexpr std::string_view letters = "0123456789*/,-# \tLWlw?@ajfmonsu\x7f\n\xc3";
        std::string text(below(40), ' ');
        for (auto& each : text)
            each = letters[below(letters.size())];
        return text;
    }

    // Fields that look right, with a little damage.
    std::string nearly_right()
    {
        static constexpr std::array<std::string_view, 22> parts{
            "*",  "0",   "7",   "23", "59",  "60",  "31", "1-5", "*/2", "5/7",    "L",
            "LW", "15W", "5#3", "5L", "mon", "dec", "?",  "L-2", "1,2", "0-59/9", "30"};
        std::string text;
        for (auto fields = below(9) == 0 ? 4 + below(4) : 5 + below(2); fields > 0; --fields)
            text += std::string(below(2) == 0 ? "*" : parts[below(parts.size())]) +
                    (below(20) == 0 ? "," : " ");
        if (below(4) == 0)
            text[below(text.size())] = noise().append("*")[0];
        return text;
    }

    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(chance_() % limit); }

private:
    std::mt19937 chance_;
};

// Whatever is accepted must be found, by the calendar alone and in a zone.
bool holds(const std::string& text, std::size_t& accepted)
{
    try {
        const auto what = core::cron::parse(text);
        ++accepted;
        const core::wall_time from = local_days{year{2027} / 3 / 1};
        const auto found = what.first_from(from);
        if (!found || *found < from || !what.contains(*found))
            return false;
        const auto in_zone = schedule::cron(text, "Europe/Vienna");
        const timestamp before = sys_days{year{2027} / 3 / 27};
        const auto next = in_zone.next(before);
        return next && *next > before && in_zone.previous(*next + 1us) == next;
    } catch (const error& refused) {
        return refused.code() == error_code::invalid_argument;
    }
}

// Proves: SCH-01
TEST(cron_fuzz, whatever_is_written_is_refused_in_words_or_means_something)
{
    std::size_t accepted = 0;
    for (unsigned seed = 1; seed <= 100; ++seed) {
        scribbler by(seed);
        for (int i = 0; i < 100; ++i) {
            const auto text = i % 2 == 0 ? by.noise() : by.nearly_right();
            ASSERT_TRUE(holds(text, accepted)) << "seed " << seed << ": '" << text << "'";
        }
    }
    EXPECT_GT(accepted, 100U) << "a fuzz that only meets refusals says little";
}

} // namespace
} // namespace posthorn
