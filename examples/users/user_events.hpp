// What happens to users, as others learn of it.
#pragma once

#include <posthorn/json.hpp>

#include <string>
#include <string_view>

namespace users {

// No event carries the one-time password: events are stored, listed and kept for days.
struct user_registration_requested {
    std::string user_id;
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(user_registration_requested, user_id)
};

struct user_verified {
    std::string user_id;
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(user_verified, user_id)
};

} // namespace users

template <>
struct posthorn::message_type<users::user_registration_requested> {
    static constexpr std::string_view topic = "UserRegistrationRequested";
};

template <>
struct posthorn::message_type<users::user_verified> {
    static constexpr std::string_view topic = "UserVerified";
};
