// Messages from outside: which of their deliveries stored them, and whether each has one effect.
#pragma once

#include "checker/rules.hpp"

namespace posthorn::checker {

/// Gives each message from outside its enqueueing. Where several deliveries may have stored it,
/// that is one of a time and an order as vague as what is known.
void tell_who_stored(dossier& all);

/// Of I1: what a transaction stored exists, and what exists was sent.
void check_arrivals(const dossier& all, verdict& result);

/// Of I20: what was sent arrives in time.
void check_arriving(const dossier& all, verdict& result);

} // namespace posthorn::checker
