// From one renewal to the next.
#include <posthorn/error.hpp>
#include <posthorn/testing/leases.hpp>

#include <algorithm>
#include <chrono>

namespace posthorn::testing {
namespace {

using namespace std::chrono_literals;

bool is_due(const lease* which)
{
    return which->renews_in() == duration::zero();
}

void wait_for_renewals(std::initializer_list<const lease*> which)
{
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (std::ranges::any_of(which, is_due)) {
        if (std::chrono::steady_clock::now() >= end)
            throw error(error_code::busy, "a lease is not renewed although it is time");
        environment::system().clock->pause(500us);
    }
}

} // namespace

void let_time_pass(manual_clock& clock, duration length,
                   std::initializer_list<const lease*> renewing)
{
    const auto end = clock.now() + length;
    for (;;) {
        wait_for_renewals(renewing);
        auto step = end - clock.now();
        for (const auto* each : renewing)
            if (const auto next = each->renews_in())
                step = std::min(step, *next);
        if (clock.now() >= end)
            return;
        clock.advance(step);
    }
}

} // namespace posthorn::testing
