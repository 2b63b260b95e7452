// The table of the inbox, as an engine keeps it. What is done with it is written once, in
// inbox_book.
#pragma once

#include <posthorn/inbox.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace posthorn::contract {

/// What `see` answers: the row, locked, and whether it is new.
struct seen_inbound {
    inbox_record row;
    bool fresh = false;
};

class inbox_table {
public:
    virtual ~inbox_table() = default;

    /// Looks without locking.
    virtual std::optional<inbox_record> find(const inbound& from) = 0;

    /// Adds the row as seen, or locks the one that is there. Whoever is adding the same is waited
    /// for.
    virtual seen_inbound see(const inbound& from, std::string_view content_hash) = 0;

    /// One statement: adds the row as done, or makes it done if it is not and no message carries
    /// it. False: nothing changed.
    virtual bool finish(const inbound& from, std::string_view content_hash) = 0;

    /// Writes a row's state; its end is now if it has one.
    virtual void mark(std::int64_t position, inbox_state as) = 0;

    /// From now on this message, which the transaction has added, carries the row, which is seen;
    /// its end will be followed.
    virtual void carry(std::int64_t position, const locator& by) = 0;

    /// Gives a message that nobody holds another payload.
    virtual void replace(std::int64_t seq, std::string_view payload,
                         std::string_view headers_json) = 0;

    /// The rows that these messages carry have come to this; done ones are followed no more.
    virtual void follow(std::span<const std::int64_t> seqs, inbox_state as) = 0;

    virtual std::vector<inbox_record> list(const inbox_filter& filter) = 0;

    /// Removes up to `limit` rows that have been done for so long.
    virtual std::size_t remove_done(duration older_than, std::size_t limit) = 0;
};

} // namespace posthorn::contract
