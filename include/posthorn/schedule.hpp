// When something happens again and again: a cron expression in a time zone, or a fixed interval.
//
//     const auto nightly = ph::schedule::cron("30 2 * * *", "Europe/Vienna");
//     for (const auto& each : ph::preview(nightly, now, 10))
//         std::cout << each.local << '\n';
//
// Expressions have five fields (minute, hour, day of the month, month, day of the week) or six with
// leading seconds. Each is `*`, a number, a range, a list, or one of the first three with `/step`;
// months and days have names, Sunday is 0 and 7. Days of the month also take `L` (the last), `L-3`,
// `15W` (the working day nearest to the 15th) and `LW`; days of the week `5L` (the last Friday) and
// `5#3` (the third). If both are restricted, one of them is enough, as in every cron; a field that
// begins with `*` is not restricted.
//
// When clocks change, what runs at fixed times runs once: at the end of a gap that its time falls
// into, and the first time where an hour comes twice. What has a `*` in its seconds, minutes or
// hours is about how often, and keeps its cadence. docs/guides/schedules.md has a table.
#pragma once

#include <posthorn/time.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn {

/// A value; cheap to copy. Threads: safe to use from any.
class schedule {
public:
    /// `zone` is a name of the IANA database, such as "Europe/Vienna"; its rules are those of the
    /// machine (`tzdata`). Also takes `@yearly`, `@monthly`, `@weekly`, `@daily` and `@hourly`.
    /// Throws: `error` with `invalid_argument`, which says what is wrong; also for days that no
    /// year has, and for zones that are not known.
    [[nodiscard]] static schedule cron(std::string_view expression, std::string_view zone = "UTC");

    /// Every so often, counted from `anchor`, which is one of its instants.
    /// Throws: `error` with `invalid_argument` for less than a second.
    [[nodiscard]] static schedule every(duration interval, timestamp anchor = {});

    /// The first instant after, or the last one before. Nothing: there is none for 50 years.
    [[nodiscard]] std::optional<timestamp> next(timestamp after) const;
    [[nodiscard]] std::optional<timestamp> previous(timestamp before) const;

    /// The expression as it was given, or the interval in words.
    [[nodiscard]] const std::string& text() const noexcept;

    /// "UTC" for intervals.
    [[nodiscard]] const std::string& zone() const noexcept;

    class rule;
    [[nodiscard]] const schedule::rule& rules() const noexcept { return *rule_; }

private:
    explicit schedule(std::shared_ptr<const rule> from) : rule_(std::move(from)) {}

    std::shared_ptr<const rule> rule_; ///< shared by copies; never changes
};

/// One instant of a schedule, for people.
struct firing {
    timestamp at;
    std::string local; ///< as "2027-03-28 03:00:00 +02:00 CEST"
    std::string utc;   ///< as "2027-03-28 01:00:00"

    /// By how much clocks change on this local day; more than zero: they go forward.
    duration clock_change{};

    /// The time it was meant for does not exist on this day.
    bool moved = false;
};

/// The first so many instants after `after`.
[[nodiscard]] std::vector<firing> preview(const schedule& which, timestamp after,
                                          std::size_t count);

} // namespace posthorn
