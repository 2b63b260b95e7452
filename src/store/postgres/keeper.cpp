// What happens to messages after their end: new attempts, removal, and the keys they held.
#include "store/postgres/keeper.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/postgres/key_heads.hpp"
#include "store/postgres/row_state.hpp"
#include "store/postgres/statements.hpp"

#include <string>

namespace posthorn::postgres {
namespace {

struct dead_message {
    std::int64_t seq = 0;
    std::vector<std::string> keys; ///< its ordering key, if it has one
};

std::optional<dead_message> find_dead(conversation& talk, message_id id)
{
    arguments which;
    which.set(sql::find_message::hint, contract::number_in(id)).set(sql::find_message::id, id);
    const auto found = talk.run(sql::find_message::text, which);
    if (found.empty() ||
        state_of(static_cast<row_state>(found.integer(0, 1)), false) != message_state::dead)
        return std::nullopt;
    dead_message result{.seq = found.integer(0, 0), .keys = {}};
    if (!found.text(0, 3).empty())
        result.keys.emplace_back(found.text(0, 3));
    return result;
}

} // namespace

bool keeper::redrive(message_id id, duration delay)
{
    const auto dead = find_dead(talk_, id);
    if (!dead)
        return false;
    key_heads heads(talk_, world_);
    // The key's head is fixed first: what may run now must not change by what comes back.
    if (!dead->keys.empty())
        heads.lock(dead->keys);
    using statement = sql::redrive;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::delay, delay).set(statement::seq, dead->seq);
    const bool changed = talk_.run(statement::text, with).changed() == 1;
    if (changed && !dead->keys.empty()) {
        heads.reconsider(dead->keys.front(), dead->seq);
        heads.admit(dead->keys, {dead->seq});
    }
    if (changed)
        follower_.came_back({&dead->seq, 1});
    return changed;
}

bool keeper::purge(message_id id)
{
    const auto dead = find_dead(talk_, id);
    return dead && remove_dead_ones({dead->seq}, dead->keys) == 1;
}

std::size_t keeper::remove_dead_ones(const std::vector<std::int64_t>& seqs,
                                     const std::vector<std::string>& keys)
{
    key_heads heads(talk_, world_);
    if (!keys.empty())
        heads.lock(keys);
    arguments with;
    with.set(sql::delete_dead::seqs, std::span<const std::int64_t>(seqs));
    const auto removed = talk_.run(sql::delete_dead::text, with);
    if (!keys.empty())
        heads.move_on(keys);
    return static_cast<std::size_t>(removed.size());
}

bool keeper::skip_key(std::string_view ordering_key)
{
    const std::vector<std::string> keys{std::string(ordering_key)};
    key_heads heads(talk_, world_);
    heads.lock(keys);
    arguments which;
    which.set_text(sql::blocker_of::ordering_key, ordering_key);
    const auto blocker = talk_.run(sql::blocker_of::text, which);
    if (blocker.empty())
        return false;
    arguments with;
    with.set_text(sql::skip_key::ordering_key, ordering_key)
        .set(sql::skip_key::seq, blocker.integer(0, 1));
    const bool changed = talk_.run(sql::skip_key::text, with).changed() == 1;
    heads.move_on(keys);
    return changed;
}

bool keeper::pause(std::string_view topic)
{
    arguments with;
    set_now(with, sql::pause::now, world_);
    with.set_text(sql::pause::topic, topic);
    return talk_.run(sql::pause::text, with).changed() == 1;
}

bool keeper::resume(std::string_view topic)
{
    arguments with;
    with.set_text(sql::resume::topic, topic);
    return talk_.run(sql::resume::text, with).changed() == 1;
}

std::size_t keeper::remove_finished(duration older_than, std::size_t limit)
{
    using statement = sql::remove_finished;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::age, older_than).set(statement::limit, static_cast<std::int64_t>(limit));
    return talk_.run(statement::text, with).changed();
}

std::size_t keeper::remove_dead(duration older_than, std::size_t limit)
{
    using statement = sql::removable_dead;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::age, older_than).set(statement::limit, static_cast<std::int64_t>(limit));
    const auto found = talk_.run(statement::text, with);
    if (found.empty())
        return 0;
    std::vector<std::int64_t> seqs;
    std::vector<std::string> keys;
    for (int row = 0; row < found.size(); ++row) {
        seqs.push_back(found.integer(row, 0));
        if (!found.text(row, 1).empty())
            keys.emplace_back(found.text(row, 1));
    }
    return remove_dead_ones(seqs, keys);
}

std::size_t keeper::forget_dedup_keys(std::size_t limit)
{
    using statement = sql::forget_dedup;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::limit, static_cast<std::int64_t>(limit));
    return talk_.run(statement::text, with).changed();
}

} // namespace posthorn::postgres
