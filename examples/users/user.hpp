// A user, and what can happen to one: each change of its state is a function that raises its event.
#pragma once

#include "user_events.hpp"
#include <posthorn/unit_of_work.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace users {

/// One after the other; invited: a code is on its way.
enum class user_state { registered, invited, verified, synced };

inline constexpr std::array<std::string_view, 4> user_state_names{"registered", "invited",
                                                                  "verified", "synced"};

struct user {
    std::string id;
    std::string email;
    std::string name;
    user_state state = user_state::registered;
    std::string code_hash = {}; ///< empty: no code is valid
    posthorn::timestamp code_valid_until = {};
    std::int64_t version = 0; ///< as read; whoever writes another one meanwhile is noticed
    posthorn::domain_events events = posthorn::domain_events{};

    /// Also for one whose code nobody used in time.
    void request_registration()
    {
        state = user_state::registered;
        code_hash.clear();
        events.raise(user_registration_requested{id});
    }

    void invite(std::string hash, posthorn::timestamp valid_until)
    {
        state = user_state::invited;
        code_hash = std::move(hash);
        code_valid_until = valid_until;
    }

    [[nodiscard]] std::string state_name() const
    {
        return std::string(user_state_names.at(static_cast<std::size_t>(state)));
    }

    [[nodiscard]] bool has_expired(posthorn::timestamp now) const
    {
        return state == user_state::invited && now >= code_valid_until;
    }

    /// The code has done its duty: it is of no use a second time.
    void verify()
    {
        state = user_state::verified;
        code_hash.clear();
        events.raise(user_verified{id});
    }

    void mark_synced() { state = user_state::synced; }
};

} // namespace users
