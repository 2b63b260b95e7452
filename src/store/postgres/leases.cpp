// One statement for each deed, which the server carries out as a whole: a client that stands still
// in the middle of it keeps nobody waiting.
#include "store/postgres/leases.hpp"

#include "store/postgres/statements.hpp"

#include <algorithm>

namespace posthorn::postgres {
namespace {

template <typename Statement>
arguments now_for(std::string_view name, const environment& world)
{
    arguments with;
    set_now(with, Statement::now, world);
    with.set_text(Statement::name, name);
    return with;
}

template <typename Statement>
arguments held_by(const contract::held_lease& which, const environment& world)
{
    auto with = now_for<Statement>(which.name, world);
    with.set_text(Statement::owner, which.token).set(Statement::fence, which.fence);
    return with;
}

lease_record read_lease(const rows& found, int row)
{
    lease_record result;
    result.name = found.text(row, 0);
    result.fence = posthorn::fence{found.integer(row, 1)};
    result.holder = found.text(row, 2);
    result.left = duration{found.integer(row, 3)};
    result.held = result.left > duration::zero();
    result.length = duration{found.integer(row, 4)};
    result.acquired_at = found.time(row, 5);
    result.renewed_at = found.time(row, 6);
    return result;
}

} // namespace

bool leases::hold(std::string_view name, posthorn::fence fence)
{
    auto with = now_for<sql::hold_lease>(name, world_);
    with.set(sql::hold_lease::fence, fence);
    const auto found = talk_.run(sql::hold_lease::text, with);
    return !found.empty() && found.yes(0, 0);
}

bool leases::pass(std::string_view name, posthorn::fence fence)
{
    arguments with;
    with.set_text(sql::pass_fence::name, name).set(sql::pass_fence::fence, fence);
    return talk_.run(sql::pass_fence::text, with).changed() > 0;
}

std::size_t leases::remove_unused(duration older_than, std::size_t limit)
{
    using statement = sql::remove_unused_leases;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::age, older_than).set(statement::limit, static_cast<std::int64_t>(limit));
    return talk_.run(statement::text, with).changed();
}

contract::lease_answer lease_desk::acquire(const contract::lease_request& what)
{
    using statement = sql::acquire_lease;
    auto grant = now_for<statement>(what.name, world_);
    grant.set_text(statement::owner, what.token)
        .set_text(statement::holder, what.holder)
        .set(statement::length, what.length);
    auto look = now_for<sql::lease_taken>(what.name, world_);
    look.set_text(sql::lease_taken::owner, what.token);
    for (;;) {
        if (const auto got = with_.run(statement::text, grant); !got.empty())
            return {.granted = posthorn::fence{got.integer(0, 0)}, .left = what.length};
        const auto seen = with_.run(sql::lease_taken::text, look);
        if (!seen.empty()) // what was released just now, the caller will soon find
            return {.granted = {},
                    .left = seen.yes(0, 0) ? std::max(duration{seen.integer(0, 1)}, duration{})
                                           : duration{}};
        with_.run(sql::add_lease::text, now_for<sql::add_lease>(what.name, world_));
    }
}

bool lease_desk::renew(const contract::held_lease& which, duration length)
{
    auto with = held_by<sql::renew_lease>(which, world_);
    with.set(sql::renew_lease::length, length);
    return with_.run(sql::renew_lease::text, with).changed() > 0;
}

bool lease_desk::release(const contract::held_lease& which)
{
    const bool released =
        !with_.run(sql::release_lease::text, held_by<sql::release_lease>(which, world_)).empty();
    if (released)
        with_.ring();
    return released;
}

std::optional<posthorn::fence> lease_desk::take_away(std::string_view name,
                                                     std::optional<posthorn::fence> from)
{
    auto with = now_for<sql::take_lease_away>(name, world_);
    if (from)
        with.set(sql::take_lease_away::fence, *from);
    const auto had = with_.run(sql::take_lease_away::text, with);
    if (had.empty())
        return std::nullopt;
    with_.ring();
    return posthorn::fence{had.integer(0, 0)};
}

std::optional<lease_record> lease_desk::find(std::string_view name)
{
    const auto found = with_.run(sql::find_lease::text, now_for<sql::find_lease>(name, world_));
    return found.empty() ? std::nullopt : std::optional{read_lease(found, 0)};
}

std::vector<lease_record> lease_desk::list(const lease_filter& which)
{
    using statement = sql::list_leases;
    arguments with;
    set_now(with, statement::now, world_);
    with.set_text(statement::after, which.after)
        .set_flag(statement::held, which.held)
        .set(statement::limit, static_cast<std::int64_t>(which.limit));
    const auto found = with_.run(statement::text, with);
    std::vector<lease_record> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_lease(found, row));
    return result;
}

std::unique_ptr<contract::bell> lease_desk::make_bell(std::string_view name)
{
    return with_.bell(name);
}

} // namespace posthorn::postgres
