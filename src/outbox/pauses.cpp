// Pauses are rows that workers read; nothing else changes.
#include "core/validation.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/message_keeper.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/pauses.hpp>

#include <algorithm>

namespace posthorn {
namespace {

bool concerns(std::string_view paused, std::string_view topic)
{
    if (paused.empty())
        return true;
    if (paused.ends_with('*'))
        return topic.starts_with(paused.substr(0, paused.size() - 1));
    return paused == topic;
}

} // namespace

bool pause(store& where, std::string_view topic)
{
    core::check_topic(topic);
    return in_transaction(where,
                          [&](transaction& tx) { return tx.session().keeper().pause(topic); });
}

bool resume(store& where, std::string_view topic)
{
    core::check_topic(topic);
    return in_transaction(where,
                          [&](transaction& tx) { return tx.session().keeper().resume(topic); });
}

std::vector<pause_record> list_pauses(store& where)
{
    auto view = where.read();
    return view.session().reader().pauses();
}

bool is_paused(const std::vector<pause_record>& pauses, std::string_view topic)
{
    return std::ranges::any_of(
        pauses, [&](const pause_record& each) { return concerns(each.topic, topic); });
}

} // namespace posthorn
