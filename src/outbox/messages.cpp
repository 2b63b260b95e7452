// Looking at messages, through short reading transactions.
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/messages.hpp>

namespace posthorn {

std::optional<message_record> find_message(transaction& tx, message_id id)
{
    return tx.session().reader().find(id);
}

std::optional<message_record> find_message(store& where, message_id id)
{
    auto view = where.read();
    return find_message(view, id);
}

std::vector<message_record> list_messages(store& where, const message_filter& filter)
{
    auto view = where.read();
    return view.session().reader().list(filter);
}

store_stats count_messages(store& where)
{
    auto view = where.read();
    return view.session().reader().count();
}

} // namespace posthorn
