// The table of commands' keys, as an engine keeps it.
#pragma once

#include <posthorn/idempotency.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace posthorn::contract {

struct key_request {
    std::string_view command;
    std::string_view key;
    std::string_view fingerprint;
    std::int64_t token = 0; ///< of this reservation alone
    duration lock{};
    duration keep{};
};

/// What a reservation found: the row as it is now, and whether it is the request's.
struct reserved_key {
    key_record row;
    bool ours = false;
};

class key_table {
public:
    virtual ~key_table() = default;

    /// One statement. Adds the row in progress; or takes over one that has expired (unless it is in
    /// progress and its lock still holds), or that has the same fingerprint and failed or whose
    /// lock has run out; or leaves it as it is. Whoever is adding the same is waited for.
    virtual reserved_key reserve(const key_request& what) = 0;

    /// False: the row is not in progress under this token.
    virtual bool complete(const key_request& which, std::string_view result) = 0;
    virtual bool fail(const key_request& which, std::string_view error) = 0;

    virtual std::optional<key_record> find(std::string_view command, std::string_view key) = 0;
    virtual std::vector<key_record> list(const key_filter& filter) = 0;
    virtual bool release(std::string_view command, std::string_view key) = 0;

    /// Removes up to `limit` rows that have expired, but for those whose lock still holds.
    virtual std::size_t remove_expired(std::size_t limit) = 0;
};

} // namespace posthorn::contract
