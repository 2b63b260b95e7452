// Joins in other stores, as users call them.
#include "core/join.hpp"
#include "core/validation.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/joins.hpp>

namespace posthorn {

attach_answer attach(transaction& tx, const remote_join& to, message_id which)
{
    core::check_key("the name of the join's store", to.store);
    if (to.store.empty())
        throw error(error_code::invalid_argument,
                    "the name of the join's store is empty; without a store, attach() takes the "
                    "id of a join in this one");
    return tx.session().joins().attach(to, which);
}

attach_answer attach(store& where, const remote_join& to, message_id which)
{
    return in_transaction(where, [&](transaction& tx) { return attach(tx, to, which); });
}

// What was open when the join ended is left, as members of its own store are.
std::vector<remote_member> list_remote_members(store& where, join_id of, message_id after,
                                               std::size_t limit)
{
    auto view = where.read();
    auto& book = view.session().joins();
    const auto join = book.reader().find(of);
    std::vector<remote_member> result;
    if (!join)
        return result;
    for (const auto& row : book.remote().rows_of_join(join->position, after, limit)) {
        const bool left = row.state == member_state::pending && join->ended_at;
        result.push_back({.id = row.id,
                          .store = row.store,
                          .state = left ? member_state::left : row.state,
                          .reported = row.reported});
    }
    return result;
}

} // namespace posthorn
