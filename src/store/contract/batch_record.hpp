// A batch as it lies in its row: members, what is settled, and when each member started.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::contract {

/// A batch's row, column by column. The last three are packed: `docs/sqlite-format.md` says how.
struct packed_batch {
    fence number{};
    std::string owner;
    std::string worker;
    timestamp claimed_at;
    timestamp lease_until;
    std::int64_t open = 0;
    std::string members;
    std::string settled;
    std::string starts;
};

/// Members and flags are packed into three small blobs, so that claiming, starting and settling a
/// batch of any size writes one row.
class batch_record {
public:
    struct member {
        std::int64_t seq = 0;
        bool queued = false; ///< has a row in the queue; else it came straight from the log
    };

    batch_record(fence number, std::string owner, std::string worker, timestamp claimed_at,
                 timestamp lease_until, std::vector<member> members);

    /// Unpacks a row. Throws: `error` with `corrupt` when it is damaged.
    explicit batch_record(packed_batch row);
    [[nodiscard]] packed_batch packed() const;

    [[nodiscard]] fence number() const noexcept { return number_; }
    [[nodiscard]] const std::string& owner() const noexcept { return owner_; }
    [[nodiscard]] const std::string& worker() const noexcept { return worker_; }
    [[nodiscard]] timestamp claimed_at() const noexcept { return claimed_at_; }
    [[nodiscard]] timestamp lease_until() const noexcept { return lease_until_; }
    [[nodiscard]] std::int64_t open() const noexcept { return open_; }
    [[nodiscard]] const std::vector<member>& members() const noexcept { return members_; }

    /// Whether the ordinal is that member's, and it is not settled.
    [[nodiscard]] bool is_open(std::uint32_t ordinal, std::int64_t seq) const noexcept;
    [[nodiscard]] bool is_open(std::uint32_t ordinal) const noexcept;

    /// The ordinal of an open member.
    [[nodiscard]] std::optional<std::uint32_t> ordinal_of(std::int64_t seq) const noexcept;

    void settle(std::uint32_t ordinal);
    void start(std::uint32_t ordinal, timestamp when);
    void start_all(); ///< with the claim itself
    [[nodiscard]] bool is_started(std::uint32_t ordinal) const noexcept;
    [[nodiscard]] std::optional<timestamp> started_at(std::uint32_t ordinal) const noexcept;

private:
    void decode_members(std::string_view blob);
    void decode_starts(std::string_view blob);
    [[nodiscard]] std::string encoded_members() const;
    [[nodiscard]] std::string encoded_starts() const;

    fence number_;
    std::string owner_;
    std::string worker_;
    timestamp claimed_at_;
    timestamp lease_until_;
    std::vector<member> members_;
    std::string settled_; ///< a bit per member
    std::int64_t open_ = 0;
    bool all_started_ = false;
    std::vector<std::optional<duration>>
        starts_; ///< per member, counted from the claim; empty: none
};

} // namespace posthorn::contract
