// Locking, moving and filling the heads of ordering keys.
#include "store/postgres/key_heads.hpp"

#include "store/postgres/statements.hpp"

#include <string_view>

namespace posthorn::postgres {
namespace {

std::vector<std::string_view> views(const std::vector<std::string>& keys)
{
    return {keys.begin(), keys.end()};
}

} // namespace

void key_heads::lock(const std::vector<std::string>& keys)
{
    arguments hold;
    arguments ensure;
    arguments lock;
    hold.set(sql::hold_lowest_open::keys, views(keys));
    ensure.set(sql::ensure_heads::keys, views(keys));
    lock.set(sql::lock_heads::keys, views(keys));
    talk_.run_all({{sql::hold_lowest_open::text, hold},
                   {sql::ensure_heads::text, ensure},
                   {sql::lock_heads::text, lock}});
}

std::unordered_set<std::string> key_heads::lock_free(const std::vector<std::string>& keys,
                                                     const waiting_messages& arrived)
{
    arguments ensure;
    arguments lock;
    ensure.set(sql::ensure_free_heads::keys, views(arrived.keys))
        .set(sql::ensure_free_heads::last, arrived.seqs.empty() ? 0 : arrived.seqs.back());
    lock.set(sql::lock_free_heads::keys, views(keys));
    const auto results =
        talk_.run_all({{sql::ensure_free_heads::text, ensure}, {sql::lock_free_heads::text, lock}});
    std::unordered_set<std::string> locked;
    for (int row = 0; row < results[1].size(); ++row)
        locked.emplace(results[1].text(row, 0));
    return locked;
}

void key_heads::forget_stale(const std::vector<std::string>& keys)
{
    arguments with;
    with.set(sql::forget_stale_heads::keys, views(keys));
    talk_.run(sql::forget_stale_heads::text, with);
}

void key_heads::move_on(const std::vector<std::string>& keys)
{
    arguments with;
    set_now(with, sql::move_heads_on::now, world_);
    with.set(sql::move_heads_on::keys, views(keys));
    talk_.run(sql::move_heads_on::text, with);
}

void key_heads::reconsider(const std::string& key, std::int64_t seq)
{
    using statement = sql::reconsider_head;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::keys, views({key})).set(statement::seq, seq);
    talk_.run(statement::text, with);
}

void key_heads::admit(const std::vector<std::string>& keys, const std::vector<std::int64_t>& seqs)
{
    // A head may have ended between our look and our lock.
    arguments move;
    arguments admit;
    set_now(move, sql::move_heads_on::now, world_);
    set_now(admit, sql::admit::now, world_);
    move.set(sql::move_heads_on::keys, views(keys));
    admit.set(sql::admit::seqs, std::span<const std::int64_t>(seqs));
    talk_.run_all({{sql::move_heads_on::text, move}, {sql::admit::text, admit}});
}

void lock_batch(conversation& talk, fence number)
{
    arguments with;
    with.set(sql::lock_any_batch::fence, number);
    talk.run(sql::lock_any_batch::text, with);
}

void leave_batch(conversation& talk, fence number, std::int64_t count)
{
    arguments shrink;
    arguments end;
    shrink.set(sql::leave_batch::count, count).set(sql::leave_batch::fence, number);
    end.set(sql::end_batch::fence, number).set(sql::end_batch::count, count);
    // The first leaves a batch of exactly `count` alone, the second ends it; after a shrunk one
    // the second must not: it may have `count` members left.
    if (talk.run(sql::leave_batch::text, shrink).changed() == 0)
        talk.run(sql::end_batch::text, end);
}

} // namespace posthorn::postgres
