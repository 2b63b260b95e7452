// What a time zone says: the offset at an instant, and the instants of a time on the wall. The
// rules are those of the machine's tz database.
#pragma once

#include "core/cron.hpp"

#include <cctz/time_zone.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::schedules {

class zone {
public:
    /// Throws: `error` with `invalid_argument` for a name that the database does not know.
    [[nodiscard]] static zone load(std::string_view name);

    /// A stretch of time with one offset.
    struct stretch {
        std::chrono::seconds offset{};
        std::optional<std::chrono::sys_seconds> end; ///< nothing: it never changes again
        std::string abbreviation;
    };
    [[nodiscard]] stretch at(std::chrono::sys_seconds when) const;
    [[nodiscard]] core::wall_time wall(std::chrono::sys_seconds when) const;

    struct instants {
        enum class kind { one, none, two };
        kind how_many = kind::one;
        std::chrono::sys_seconds first;  ///< if there is none, the end of the gap
        std::chrono::sys_seconds change; ///< of the clocks, unless there is one
    };
    [[nodiscard]] instants of(core::wall_time when) const;

    [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
    zone(cctz::time_zone data, std::string name) : data_(data), name_(std::move(name)) {}

    cctz::time_zone data_;
    std::string name_;
};

} // namespace posthorn::schedules
