// Joins in many stores, by the keys of their stores.
#include <posthorn/error.hpp>
#include <posthorn/joins.hpp>

namespace posthorn {

join_id join_router::open(std::string_view key, const join_options& how, const stop_request& stop)
{
    auto where = router_.store(key);
    return open_join(where, how, stop);
}

attach_answer join_router::attach(std::string_view key, join_id to, message_id which)
{
    auto where = router_.store(key);
    return posthorn::attach(where, to, which);
}

bool join_router::cancel(std::string_view key, join_id which, const cancel_join_options& how)
{
    auto where = router_.store(key);
    return cancel_join(where, which, how);
}

std::optional<join_record> join_router::find(std::string_view key, join_id which)
{
    auto where = router_.store(key);
    return find_join(where, which);
}

std::optional<join_router::located> join_router::find(join_id which)
{
    for (const auto& each : among_.list()) {
        auto where = router_.store(each.name);
        if (auto found = find_join(where, which))
            return located{.store = each.name, .join = std::move(*found)};
    }
    return std::nullopt;
}

} // namespace posthorn
