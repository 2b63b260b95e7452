// One statement for each deed, which the server carries out as a whole: a client that stands still
// in the middle of it keeps nobody waiting. An update does not say what it wrote, so a look
// follows; a grant is known by its token.
#include "store/mariadb/leases.hpp"

#include "store/mariadb/statements.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace posthorn::mariadb {
namespace {

std::optional<timestamp> clock_of_test(connection& db)
{
    return db.environment().clock->database_time();
}

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

/// How a lease stands, as seen by the holder of a token.
struct sight {
    bool exists = false;
    bool ours = false;
    bool taken = false; ///< by somebody else
    posthorn::fence fence{};
    duration left{};
};

sight look_at(connection& db, std::string_view name, std::string_view token)
{
    using statement = sql::look_at_lease;
    auto row = db.use(statement::text);
    row.bind_bytes(statement::name, name).bind(statement::now, clock_of_test(db));
    if (!row.step())
        return {};
    const auto owner = row.text(0);
    const duration left{row.integer(2)};
    return {.exists = true,
            .ours = owner == token,
            .taken = !owner.empty() && owner != token && left > duration::zero(),
            .fence = posthorn::fence{row.integer(1)},
            .left = left};
}

void grant(connection& db, const contract::lease_request& what)
{
    using statement = sql::acquire_lease;
    db.use(statement::text)
        .bind_bytes(statement::name, what.name)
        .bind_bytes(statement::owner, what.token)
        .bind_bytes(statement::holder, what.holder)
        .bind(statement::length, std::int64_t{what.length.count()})
        .bind(statement::now, clock_of_test(db))
        .run();
}

contract::lease_answer acquire_on(connection& db, const contract::lease_request& what)
{
    for (;;) {
        auto seen = look_at(db, what.name, what.token);
        if (!seen.exists) {
            db.use(sql::add_lease::text)
                .bind_bytes(sql::add_lease::name, what.name)
                .bind(sql::add_lease::now, clock_of_test(db))
                .run();
            continue;
        }
        if (!seen.taken) {
            grant(db, what);
            seen = look_at(db, what.name, what.token);
        }
        if (seen.ours)
            return {.granted = seen.fence, .left = what.length};
        if (seen.exists)
            return {.granted = {}, .left = seen.taken ? seen.left : duration{}};
    }
}

} // namespace

bool leases::hold(std::string_view name, posthorn::fence fence)
{
    using statement = sql::hold_lease;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::name, name)
        .bind(statement::fence, fence)
        .bind(statement::now, clock_of_test(db_));
    return row.step() && row.integer(0) != 0;
}

bool leases::pass(std::string_view name, posthorn::fence fence)
{
    using statement = sql::pass_fence;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::name, name).bind(statement::fence, fence);
    return row.step() && posthorn::fence{row.integer(0)} == fence;
}

std::size_t leases::remove_unused(duration older_than, std::size_t limit)
{
    std::vector<std::string> unused;
    {
        using statement = sql::unused_leases;
        auto row = db_.use(statement::text);
        row.bind(statement::age, std::int64_t{older_than.count()})
            .bind(statement::now, clock_of_test(db_))
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            unused.emplace_back(row.text(0));
    }
    if (unused.empty())
        return 0;
    auto rows = db_.use(sql::remove_lease::text);
    for (const auto& name : unused)
        rows.bind_bytes(sql::remove_lease::name, name).end_row();
    rows.run();
    return unused.size();
}

contract::lease_answer lease_desk::acquire(const contract::lease_request& what)
{
    contract::lease_answer answer;
    with_([&](connection& db) { answer = acquire_on(db, what); });
    return answer;
}

bool lease_desk::renew(const contract::held_lease& which, duration length)
{
    bool renewed = false;
    with_([&](connection& db) {
        using statement = sql::renew_lease;
        renewed = db.use(statement::text)
                      .bind_bytes(statement::name, which.name)
                      .bind_bytes(statement::owner, which.token)
                      .bind(statement::fence, which.fence)
                      .bind(statement::length, std::int64_t{length.count()})
                      .bind(statement::now, clock_of_test(db))
                      .run() > 0;
        if (!renewed) { // or twice at the same moment, which a test's clock makes possible
            const auto seen = look_at(db, which.name, which.token);
            renewed = seen.ours && seen.fence == which.fence && seen.left >= length;
        }
    });
    return renewed;
}

bool lease_desk::release(const contract::held_lease& which)
{
    bool released = false;
    with_([&](connection& db) {
        using statement = sql::release_lease;
        released = db.use(statement::text)
                       .bind_bytes(statement::name, which.name)
                       .bind_bytes(statement::owner, which.token)
                       .bind(statement::fence, which.fence)
                       .bind(statement::now, clock_of_test(db))
                       .run() > 0;
    });
    if (released)
        released_->ring();
    return released;
}

std::optional<posthorn::fence> lease_desk::take_away(std::string_view name,
                                                     std::optional<posthorn::fence> from)
{
    std::optional<posthorn::fence> had;
    with_([&](connection& db) {
        const auto fence = from ? *from : look_at(db, name, {}).fence;
        using statement = sql::take_lease_away;
        if (db.use(statement::text)
                .bind_bytes(statement::name, name)
                .bind(statement::fence, fence)
                .bind(statement::now, clock_of_test(db))
                .run() > 0)
            had = fence;
    });
    if (had)
        released_->ring();
    return had;
}

std::optional<lease_record> lease_desk::find(std::string_view name)
{
    std::optional<lease_record> found;
    with_([&](connection& db) {
        using statement = sql::find_lease;
        auto row = db.use(statement::text);
        row.bind_bytes(statement::name, name).bind(statement::now, clock_of_test(db));
        found = row.step() ? std::optional{read_lease(row)} : std::nullopt;
    });
    return found;
}

std::vector<lease_record> lease_desk::list(const lease_filter& which)
{
    std::vector<lease_record> result;
    with_([&](connection& db) {
        using statement = sql::list_leases;
        auto row = db.use(statement::text);
        row.bind_bytes(statement::after, which.after)
            .bind(statement::held, std::int64_t{which.held})
            .bind(statement::now, clock_of_test(db))
            .bind(statement::limit, static_cast<std::int64_t>(which.limit));
        result.clear();
        while (row.step())
            result.push_back(read_lease(row));
    });
    return result;
}

std::unique_ptr<contract::bell> lease_desk::make_bell(std::string_view /*name*/)
{
    return std::make_unique<contract::polling_bell>(released_, contract::pace_of_statements);
}

} // namespace posthorn::mariadb
