// Jobs and timers in many stores, by the keys of their stores.
#include <posthorn/schedules.hpp>

namespace posthorn {

put_answer job_router::put(std::string_view key, std::string_view name, const job_options& how)
{
    auto where = router_.store(key);
    return put_job(where, name, how);
}

bool job_router::remove(std::string_view key, std::string_view name)
{
    auto where = router_.store(key);
    return delete_job(where, name);
}

execution_id job_router::trigger(std::string_view key, std::string_view name)
{
    auto where = router_.store(key);
    return trigger_job(where, name);
}

put_answer job_router::set_timer(std::string_view key, std::string_view name, timestamp at,
                                 const message& what)
{
    auto where = router_.store(key);
    return posthorn::set_timer(where, name, at, what);
}

bool job_router::cancel_timer(std::string_view key, std::string_view name)
{
    auto where = router_.store(key);
    return posthorn::cancel_timer(where, name);
}

std::optional<job_record> job_router::find(std::string_view key, std::string_view name)
{
    auto where = router_.store(key);
    return find_job(where, name);
}

} // namespace posthorn
