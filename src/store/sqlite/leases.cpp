// One writer at a time, so a statement decides and nothing has to be locked. Whoever only looks
// does not write: those who wait for a lease do not stand in anybody's way.
#include "store/sqlite/leases.hpp"

#include "core/planted.hpp"
#include "store/sqlite/statements.hpp"

#include <fstream>

namespace posthorn::sqlite {
namespace {

lease_record read_lease(const query& row)
{
    lease_record result;
    result.name = row.text(0);
    result.fence = posthorn::fence{row.integer(1)};
    result.holder = row.text(2);
    result.left = duration{row.integer(3)};
    result.held = result.left > duration::zero();
    result.length = duration{row.integer(4)};
    result.acquired_at = row.time(5);
    result.renewed_at = row.time(6);
    return result;
}

} // namespace

std::string boot_id()
{
    std::string result;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> result;
    return result;
}

std::int64_t leases::at() const
{
    if constexpr (core::leases_by_the_wall_clock)
        return world_.clock->now().time_since_epoch().count();
    else
        return world_.clock->since_boot().time_since_epoch().count();
}

/// For how long somebody else has it.
std::optional<duration> leases::taken(const contract::lease_request& what)
{
    using statement = sql::lease_taken;
    const auto boot = boot_id();
    auto row = db_.use(statement::text);
    row.bind_text(statement::name, what.name)
        .bind_text(statement::owner, what.token)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at());
    return row.step() ? std::optional{duration{row.integer(0)}} : std::nullopt;
}

std::optional<posthorn::fence> leases::grant(const contract::lease_request& what)
{
    using statement = sql::grant_lease;
    const auto boot = boot_id();
    std::int64_t fence = 0;
    {
        auto row = db_.use(statement::text);
        row.bind_text(statement::name, what.name)
            .bind_text(statement::owner, what.token)
            .bind_text(statement::holder, what.holder)
            .bind_text(statement::boot, boot)
            .bind(statement::at, at())
            .bind(statement::length, std::int64_t{what.length.count()})
            .bind(statement::now, world_.clock->now());
        if (!row.step())
            return std::nullopt;
        fence = row.integer(0);
        row.run();
    }
    db_.use(sql::note_fence::text).bind(sql::note_fence::fence, fence).run();
    return posthorn::fence{fence};
}

bool leases::renew(const contract::held_lease& which, duration length)
{
    using statement = sql::renew_lease;
    const auto boot = boot_id();
    db_.use(statement::text)
        .bind_text(statement::name, which.name)
        .bind_text(statement::owner, which.token)
        .bind(statement::fence, which.fence)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at())
        .bind(statement::length, std::int64_t{length.count()})
        .bind(statement::now, world_.clock->now())
        .run();
    return db_.changes() > 0;
}

bool leases::release(const contract::held_lease& which)
{
    using statement = sql::release_lease;
    const auto boot = boot_id();
    db_.use(statement::text)
        .bind_text(statement::name, which.name)
        .bind_text(statement::owner, which.token)
        .bind(statement::fence, which.fence)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at())
        .bind(statement::now, world_.clock->now())
        .run();
    return db_.changes() > 0;
}

std::optional<posthorn::fence> leases::take_away(std::string_view name,
                                                 std::optional<posthorn::fence> from)
{
    using statement = sql::take_lease_away;
    const auto boot = boot_id();
    auto row = db_.use(statement::text);
    row.bind_text(statement::name, name)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at())
        .bind(statement::now, world_.clock->now());
    if (from)
        row.bind(statement::fence, *from);
    if (!row.step())
        return std::nullopt;
    const posthorn::fence had{row.integer(0)};
    row.run();
    return had;
}

std::optional<lease_record> leases::find(std::string_view name)
{
    using statement = sql::find_lease;
    const auto boot = boot_id();
    auto row = db_.use(statement::text);
    row.bind_text(statement::name, name).bind_text(statement::boot, boot).bind(statement::at, at());
    return row.step() ? std::optional{read_lease(row)} : std::nullopt;
}

std::vector<lease_record> leases::list(const lease_filter& which)
{
    using statement = sql::list_leases;
    const auto boot = boot_id();
    auto row = db_.use(statement::text);
    row.bind_text(statement::after, which.after)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at())
        .bind(statement::held, std::int64_t{which.held})
        .bind(statement::limit, static_cast<std::int64_t>(which.limit));
    std::vector<lease_record> result;
    while (row.step())
        result.push_back(read_lease(row));
    return result;
}

bool leases::hold(std::string_view name, posthorn::fence fence)
{
    using statement = sql::hold_lease;
    const auto boot = boot_id();
    db_.use(statement::text)
        .bind_text(statement::name, name)
        .bind(statement::fence, fence)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at())
        .run();
    return db_.changes() > 0;
}

bool leases::pass(std::string_view name, posthorn::fence fence)
{
    using statement = sql::pass_fence;
    db_.use(statement::text).bind_text(statement::name, name).bind(statement::fence, fence).run();
    return db_.changes() > 0;
}

std::size_t leases::remove_unused(duration older_than, std::size_t limit)
{
    using statement = sql::remove_unused_leases;
    const auto boot = boot_id();
    db_.use(statement::text)
        .bind(statement::until, world_.clock->now() - older_than)
        .bind_text(statement::boot, boot)
        .bind(statement::at, at())
        .bind(statement::limit, static_cast<std::int64_t>(limit))
        .run();
    return static_cast<std::size_t>(db_.changes());
}

} // namespace posthorn::sqlite
