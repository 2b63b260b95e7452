// Shares of a lease's length.
#include "core/lease.hpp"

#include "core/planted.hpp"
#include "core/validation.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::core {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t text_bytes_max = 255;
constexpr duration length_min = 10ms;
constexpr duration length_max = std::chrono::hours{24 * 366};

duration share_of(duration whole, double share) noexcept
{
    return std::chrono::duration_cast<duration>(whole * share);
}

duration margin_of(const lease_options& how) noexcept
{
    return how.margin.value_or(how.length / 10);
}

void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

} // namespace

void check_lease_name(std::string_view name)
{
    if (name.empty() || name.size() > text_bytes_max || !is_text(name))
        refuse(fmt::format("the name of a lease must be text of 1 to {} bytes", text_bytes_max));
}

void check_lease(std::string_view name, const lease_options& how)
{
    check_lease_name(name);
    if (how.holder.size() > text_bytes_max || !is_text(how.holder))
        refuse(
            fmt::format("the holder of a lease must be text of at most {} bytes", text_bytes_max));
    if (how.length < length_min || how.length > length_max)
        refuse("a lease must be granted for at least 10 milliseconds and at most a year");
    if (how.margin && (*how.margin < duration::zero() || *how.margin > how.length / 4))
        refuse("the margin of a lease must be at least zero, and at most a quarter of its length");
}

duration believed_for(const lease_options& how) noexcept
{
    return how.length - margin_of(how);
}

duration renewed_after(const lease_options& how, double chance) noexcept
{
    const auto earliest = share_of(how.length, 0.6);
    if constexpr (renews_when_it_likes)
        return earliest + share_of(5s, chance);
    return earliest + share_of((believed_for(how) - earliest) / 4, chance);
}

duration tried_again_after(duration left, double chance) noexcept
{
    return std::max<duration>(share_of(left, 0.1 + 0.15 * chance), 1ms);
}

} // namespace posthorn::core
