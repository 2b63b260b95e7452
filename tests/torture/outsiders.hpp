// Those outside: senders who deliver everything again and again, and clients who repeat their
// commands. All of them may be killed at any time.
#pragma once

#include <posthorn/inbox.hpp>
#include <posthorn/store.hpp>

#include <filesystem>
#include <stop_token>
#include <string>

namespace posthorn::torture {

/// The source of everything that senders deliver; what they call it is the effect it must have
/// once.
inline constexpr const char* outside_source = "outside";

struct outsider_options {
    std::string url;
    std::filesystem::path notes; ///< beside it: `.count`, `.done` and `.replies`
    std::string name;
    std::string effects; ///< the table
    int ids = 5;
    int times = 1'000;          ///< that each is delivered
    std::string through;        ///< `once`, `queue`, or `looking`: as one should not
    int lock = 500;             ///< of commands, in milliseconds
    std::filesystem::path gate; ///< of one who reserves a key and then waits for this file
};

/// Delivers each id so often, with several threads, one id after the other, and then once more from
/// the first one; `looking` delivers one id, with each thread once, and ends. `.count` grows by a
/// byte with each delivery; `.done` is there after the first round.
void deliver(store where, const outsider_options& how, const std::stop_token& stop);

/// Runs a command for each key, some of them slower than its lock, over and over. What it was
/// answered stands in `.replies`, as lines of a key, a tab and the result.
void send_commands(store where, const outsider_options& how, const std::stop_token& stop);

/// Reserves the key `held`, creates the gate's name with `.inside`, waits for the gate and then
/// runs the command. `.replies` says `completed` or `refused`.
void hold_command(store where, const outsider_options& how);

} // namespace posthorn::torture
