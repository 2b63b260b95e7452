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

using seqs_by_key = std::map<std::string, std::vector<std::int64_t>>; ///< sorted by key and seq

seqs_by_key read_by_key(query& row, int seq_column, int key_column)
{
    seqs_by_key result;
    while (row.step())
        result[std::string(row.text(key_column))].push_back(row.integer(seq_column));
    for (auto& [key, seqs] : result)
        std::ranges::sort(seqs);
    return result;
}

std::string list_of(const seqs_by_key& groups,
                    const std::function<std::int64_t(const std::vector<std::int64_t>&)>& choose)
{
    std::vector<std::int64_t> chosen;
    for (const auto& [key, seqs] : groups)
        chosen.push_back(choose(seqs));
    return json_list(chosen);
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

std::size_t keys::admit_arrived(std::size_t limit)
{
    seqs_by_key mine;
    std::size_t found = 0;
    {
        using statement = sql::arrived;
        auto row = db_.use(statement::text);
        row.bind(statement::limit, static_cast<std::int64_t>(limit));
        mine = read_by_key(row, 0, 1);
        for (const auto& [key, seqs] : mine)
            found += seqs.size();
    }
    if (mine.empty())
        return 0;
    {
        const auto newest = list_of(mine, [](const auto& seqs) { return seqs.back(); });
        using statement = sql::arrived_before;
        auto row = db_.use(statement::text);
        row.bind_ascii(statement::list, newest);
        keep_unbroken_starts(mine, read_by_key(row, 0, 1));
    }
    if (mine.empty())
        return found;

    // In the order of the keys, as everybody locks them.
    const auto oldest = list_of(mine, [](const auto& seqs) { return seqs.front(); });
    db_.use(sql::ensure_heads::text).bind_ascii(sql::ensure_heads::list, oldest).run();
    std::vector<std::int64_t> heads;
    std::vector<std::int64_t> others;
    {
        auto row = db_.use(sql::heads_of::text);
        row.bind_ascii(sql::heads_of::list, oldest);
        while (row.step()) {
            const auto head = row.integer(1);
            for (const auto seq : mine.at(std::string(row.text(0))))
                (seq == head ? heads : others).push_back(seq);
        }
    }
    move(db_, heads, place::ready);
    move(db_, others, place::waiting);
    return found;
}

void keys::go_on(const std::set<std::string>& ordering_keys)
{
    for (const auto& key : ordering_keys) {
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
            continue;
        }
        db_.use(sql::set_head::text)
            .bind_bytes(sql::set_head::ordering_key, key)
            .bind(sql::set_head::seq, next)
            .run();
        db_.use(sql::move_one::text)
            .bind(sql::move_one::seq, next)
            .bind(sql::move_one::place, number(place::ready))
            .run();
    }
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
