// Admission and succession.
//
// An enqueue only inserts; its message has *arrived*. A worker admits it, in seq order, and never
// past an earlier message of the same key that has arrived too and that another worker is about to
// admit. So whatever waits is older than whatever has arrived, and a successor is found among those
// that wait alone.
#include "store/mariadb/keys.hpp"

#include "store/mariadb/places.hpp"
#include "store/mariadb/statements.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

namespace posthorn::mariadb {
namespace {

using seqs_by_key = keys::seqs_by_key;

seqs_by_key read_by_key(query& row, int seq_column, int key_column)
{
    seqs_by_key result;
    while (row.step())
        result[std::string(row.text(key_column))].push_back(row.integer(seq_column));
    for (auto& [key, seqs] : result)
        std::ranges::sort(seqs);
    return result;
}

using choice = std::function<std::int64_t(const std::vector<std::int64_t>&)>;

std::vector<std::int64_t> one_of_each(const seqs_by_key& groups, const choice& choose)
{
    std::vector<std::int64_t> chosen;
    for (const auto& [key, seqs] : groups)
        chosen.push_back(choose(seqs));
    return chosen;
}

void move(connection& db, const std::vector<std::int64_t>& seqs, place to)
{
    if (seqs.empty())
        return;
    const auto list = json_list(seqs);
    using statement = sql::move_queued;
    db.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::place, number(to))
        .run();
}

// Drops from each key what stands behind a message that somebody else has locked.
void keep_unbroken_starts(seqs_by_key& mine, const seqs_by_key& all)
{
    for (auto& [key, seqs] : mine) {
        const auto found = all.find(key);
        if (found == all.end())
            continue;
        const auto [first_difference, ignored] = std::ranges::mismatch(seqs, found->second);
        seqs.erase(first_difference, seqs.end());
    }
    std::erase_if(mine, [](const auto& entry) { return entry.second.empty(); });
}

} // namespace

keys::admission keys::admit_arrived(std::int64_t after, std::size_t limit)
{
    seqs_by_key mine;
    admission result{.last = after};
    {
        using statement = sql::arrived;
        auto row = db_.use(statement::text);
        row.bind(statement::after, after).bind(statement::limit, static_cast<std::int64_t>(limit));
        mine = read_by_key(row, 0, 1);
    }
    std::size_t admitted = 0;
    for (const auto& [key, seqs] : mine) {
        result.found += seqs.size();
        result.last = std::max(result.last, seqs.back());
    }
    if (mine.empty())
        return result;
    {
        const auto newest = json_list(one_of_each(mine, [](const auto& s) { return s.back(); }));
        using statement = sql::arrived_before;
        auto row = db_.use(statement::text);
        row.bind_ascii(statement::list, newest);
        keep_unbroken_starts(mine, read_by_key(row, 0, 1));
    }
    std::vector<std::int64_t> heads;
    std::vector<std::int64_t> others;
    for (const auto& [key, head] : lock_heads(mine))
        for (const auto seq : mine.at(key)) {
            (seq == head ? heads : others).push_back(seq);
            ++admitted;
        }
    move(db_, heads, place::ready);
    move(db_, others, place::waiting);
    result.left_some = admitted < result.found;
    return result;
}

// In the order of the keys, as everybody locks them. Together first: that one of them is held
// elsewhere is rare.
std::map<std::string, std::int64_t> keys::lock_heads(const seqs_by_key& of)
{
    std::map<std::string, std::int64_t> result;
    if (of.empty())
        return result;
    std::vector<std::int64_t> held;
    ensure_heads(one_of_each(of, [](const auto& seqs) { return seqs.front(); }), held);
    if (held.empty())
        return result;
    const auto list = json_list(held);
    auto row = db_.use(sql::heads_of::text);
    row.bind_ascii(sql::heads_of::list, list);
    while (row.step())
        result.emplace(row.text(0), row.integer(1));
    return result;
}

// Halves those of which another transaction holds some, until it is known which.
void keys::ensure_heads(std::span<const std::int64_t> oldest, std::vector<std::int64_t>& held)
{
    const connection::no_waiting at_once(db_);
    try {
        const auto list = json_list(oldest);
        db_.use(sql::ensure_heads::text).bind_ascii(sql::ensure_heads::list, list).run();
        held.insert(held.end(), oldest.begin(), oldest.end());
    } catch (const contract::held_elsewhere&) {
        if (!db_.in_transaction())
            throw;
        if (oldest.size() == 1)
            return;
        ensure_heads(oldest.first(oldest.size() / 2), held);
        ensure_heads(oldest.subspan(oldest.size() / 2), held);
    }
}

void keys::go_on(const std::set<std::string>& ordering_keys)
{
    for (const auto& key : ordering_keys)
        if (db_.waits_for_locks() == connection::patience::lock_timeout)
            wait_and_go_on(key);
        else if (!try_to_go_on(key))
            db_.use(sql::note_stale_head::text)
                .bind_bytes(sql::note_stale_head::ordering_key, key)
                .run();
}

void keys::wait_and_go_on(const std::string& key)
{
    {
        auto row = db_.use(sql::lock_head::text);
        row.bind_bytes(sql::lock_head::ordering_key, key);
        row.step();
    }
    std::int64_t next = 0;
    {
        auto row = db_.use(sql::next_of_key::text);
        row.bind_bytes(sql::next_of_key::ordering_key, key);
        if (row.step())
            next = row.integer(0);
    }
    if (next == 0) {
        db_.use(sql::delete_head::text).bind_bytes(sql::delete_head::ordering_key, key).run();
        return;
    }
    set_head(key, next);
    move(db_, {next}, place::ready);
}

void keys::set_head(const std::string& key, std::int64_t seq)
{
    db_.use(sql::set_head::text)
        .bind_bytes(sql::set_head::ordering_key, key)
        .bind(sql::set_head::seq, seq)
        .run();
}

bool keys::try_to_go_on(const std::string& key)
{
    {
        auto row = db_.use(sql::lock_free_head::text);
        row.bind_bytes(sql::lock_free_head::ordering_key, key);
        if (!row.step())
            return false;
    }
    return give_way(key);
}

// Requires: the lock of the key's head.
bool keys::give_way(const std::string& key)
{
    std::int64_t next = 0;
    {
        auto row = db_.use(sql::next_seen_of_key::text);
        row.bind_bytes(sql::next_seen_of_key::ordering_key, key);
        if (row.step())
            next = row.integer(0);
    }
    if (next == 0) {
        db_.use(sql::delete_head::text).bind_bytes(sql::delete_head::ordering_key, key).run();
        return true;
    }
    const connection::no_waiting at_once(db_);
    try {
        // Not the next that waits, if an application has ended this one in between.
        if (db_.use(sql::make_ready::text).bind(sql::make_ready::seq, next).run() == 0)
            return false;
    } catch (const contract::held_elsewhere&) {
        if (!db_.in_transaction())
            throw;
        return false;
    }
    set_head(key, next);
    return true;
}

// A head that has ended since gives way. Where there is none, the key is free already.
bool keys::try_to_mend(const std::string& key)
{
    std::int64_t head = 0;
    {
        auto row = db_.use(sql::lock_free_head::text);
        row.bind_bytes(sql::lock_free_head::ordering_key, key);
        if (row.step())
            head = row.integer(0);
    }
    if (head == 0) {
        auto row = db_.use(sql::has_head::text);
        row.bind_bytes(sql::has_head::ordering_key, key);
        return !row.step();
    }
    {
        auto row = db_.use(sql::place_of::text);
        row.bind(sql::place_of::seq, head);
        if (row.step() && holds_its_key(static_cast<place>(row.integer(0))))
            return true;
    }
    return give_way(key);
}

bool keys::tend_stale(std::size_t limit)
{
    seqs_by_key stale; // by the numbers of their notes
    {
        auto row = db_.use(sql::stale_heads::text);
        row.bind(sql::stale_heads::limit, static_cast<std::int64_t>(limit));
        stale = read_by_key(row, 0, 1);
    }
    std::vector<std::int64_t> mended;
    bool left_some = false;
    for (const auto& [key, notes] : stale)
        if (try_to_mend(key))
            mended.insert(mended.end(), notes.begin(), notes.end());
        else
            left_some = true;
    if (!mended.empty()) {
        const auto list = json_list(mended);
        db_.use(sql::forget_stale_heads::text)
            .bind_ascii(sql::forget_stale_heads::list, list)
            .run();
    }
    return left_some;
}

void keys::admit_redriven(std::int64_t seq, std::string_view ordering_key)
{
    // A key that is free but has messages that have arrived belongs to the first of those.
    std::int64_t candidate = seq;
    {
        using statement = sql::first_arrived_of_key;
        auto row = db_.use(statement::text);
        row.bind_bytes(statement::ordering_key, ordering_key);
        if (row.step())
            candidate = row.integer(0);
    }
    db_.use(sql::ensure_head::text)
        .bind_bytes(sql::ensure_head::ordering_key, ordering_key)
        .bind(sql::ensure_head::seq, candidate)
        .run();
    std::int64_t head = 0;
    {
        auto row = db_.use(sql::lock_head::text);
        row.bind_bytes(sql::lock_head::ordering_key, ordering_key);
        row.step();
        head = row.integer(0);
    }
    if (head == candidate)
        move(db_, {candidate}, place::ready);
    if (head != seq)
        move(db_, {seq}, place::waiting);
}

} // namespace posthorn::mariadb
