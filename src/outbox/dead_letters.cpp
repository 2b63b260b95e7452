// Dead letters: found page by page, changed in small
// transactions, so that no lock is held for long.
#include "outbox/in_transaction.hpp"
#include "store/contract/message_keeper.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include "store/contract/settlement_follower.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/error.hpp>

#include <functional>

namespace posthorn {
namespace {

constexpr std::size_t page_size = 500;

message_filter first_page_of_dead(message_filter filter)
{
    filter.state = message_state::dead;
    filter.after_position = 0;
    filter.limit = page_size;
    filter.with_payload = false;
    return filter;
}

// Calls `change` for every dead message that matches; counts those it says yes to.
std::size_t for_each_dead(store& where, const message_filter& which,
                          const std::function<bool(transaction&, const message_record&,
                                                   std::size_t changed_before)>& change)
{
    auto filter = first_page_of_dead(which);
    std::size_t count = 0;
    for (;;) {
        std::vector<message_record> page;
        count += in_transaction(where, [&](transaction& tx) {
            std::size_t changed = 0;
            page = tx.session().reader().list(filter);
            contract::gathering back(tx.session().follower());
            for (const auto& each : page)
                changed += change(tx, each, count + changed) ? 1 : 0;
            back.follow();
            return changed;
        });
        if (page.size() < page_size)
            return count;
        filter.after_position = page.back().position;
    }
}

std::size_t count_dead(store& where, const message_filter& which)
{
    auto filter = first_page_of_dead(which);
    std::size_t count = 0;
    for (;;) {
        const auto page = list_messages(where, filter);
        count += page.size();
        if (page.size() < page_size)
            return count;
        filter.after_position = page.back().position;
    }
}

} // namespace

bool redrive(store& where, message_id id)
{
    return in_transaction(where, [&](transaction& tx) {
        return tx.session().keeper().redrive(id, duration::zero());
    });
}

std::size_t redrive(store& where, const message_filter& filter, const redrive_options& how)
{
    if (how.per_second && !(*how.per_second > 0))
        throw error(error_code::invalid_argument, "per_second must be positive");
    if (how.dry_run)
        return count_dead(where, filter);
    return for_each_dead(
        where, filter, [&](transaction& tx, const message_record& which, std::size_t redriven) {
            const double seconds =
                how.per_second ? static_cast<double>(redriven) / *how.per_second : 0.0;
            const auto delay = seconds * 1e6 < static_cast<double>(limits::span_max.count())
                                   ? duration{static_cast<duration::rep>(seconds * 1e6)}
                                   : limits::span_max;
            return tx.session().keeper().redrive(which.id, delay);
        });
}

bool purge(store& where, message_id id)
{
    return in_transaction(where, [&](transaction& tx) { return tx.session().keeper().purge(id); });
}

std::size_t purge(store& where, const message_filter& filter, bool dry_run)
{
    if (dry_run)
        return count_dead(where, filter);
    return for_each_dead(where, filter,
                         [](transaction& tx, const message_record& which, std::size_t /*purged*/) {
                             return tx.session().keeper().purge(which.id);
                         });
}

std::vector<blocked_key> list_blocked_keys(store& where, std::size_t limit)
{
    auto view = where.read();
    return view.session().reader().blocked_keys(limit);
}

bool retry_blocked_key(store& where, std::string_view ordering_key)
{
    return in_transaction(where, [&](transaction& tx) {
        const auto blocker = tx.session().reader().blocker_of(ordering_key);
        return blocker && tx.session().keeper().redrive(*blocker, duration::zero());
    });
}

bool skip_blocked_key(store& where, std::string_view ordering_key)
{
    return in_transaction(
        where, [&](transaction& tx) { return tx.session().keeper().skip_key(ordering_key); });
}

} // namespace posthorn
