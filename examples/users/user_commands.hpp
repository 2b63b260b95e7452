// What clients can ask for: two commands, each of which runs once per key.
#pragma once

#include "settings.hpp"
#include "user_table.hpp"
#include <posthorn/commands.hpp>

#include <string>

namespace users {

struct register_user {
    std::string email;
    std::string name;
    std::string idempotency_key;
};

struct verify_user {
    std::string email;
    std::string code;
    std::string idempotency_key;
};

/// Validation, idempotency and handlers of both. Lifetime: `table` must outlive it.
[[nodiscard]] posthorn::command_pipeline make_commands(const posthorn::store& store,
                                                       const user_table& table,
                                                       const settings::idempotency_settings& how);

} // namespace users

/// Their results are the ids of users.
template <>
struct posthorn::command_type<users::register_user> {
    static constexpr std::string_view name = "RegisterUser";
    using result = std::string;
};

template <>
struct posthorn::command_type<users::verify_user> {
    static constexpr std::string_view name = "VerifyUser";
    using result = std::string;
};
