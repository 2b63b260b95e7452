// Cleaning: small transactions, one after the other, until nothing is left to remove.
#include "outbox/in_transaction.hpp"
#include "store/contract/inbox_book.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/key_table.hpp"
#include "store/contract/lease_desk.hpp"
#include "store/contract/message_keeper.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/retention.hpp>

namespace posthorn {

cleaning_report clean(store& where, const retention& rules, std::size_t batches_max)
{
    if (rules.batch == 0 || rules.inbox < duration::zero() || rules.executions < duration::zero() ||
        rules.finished < duration::zero() ||
        rules.dead.value_or(duration::zero()) < duration::zero() ||
        rules.joins.value_or(duration::zero()) < duration::zero() ||
        rules.leases < duration::zero())
        throw error(error_code::invalid_argument,
                    "retention: the batch must be at least 1 and no time negative");
    cleaning_report report;
    for (std::size_t i = 0; i < batches_max; ++i) {
        const auto removed = in_transaction(where, [&](transaction& tx) {
            auto& keeper = tx.session().keeper();
            return cleaning_report{
                .finished = keeper.remove_finished(rules.finished, rules.batch),
                .dead = rules.dead ? keeper.remove_dead(*rules.dead, rules.batch) : 0,
                .dedup_keys = keeper.forget_dedup_keys(rules.batch),
                .joins = tx.session().joins().table().remove_ended(
                    rules.joins.value_or(rules.finished), rules.batch),
                .inbox = tx.session().inbox().table().remove_done(rules.inbox, rules.batch),
                .command_keys = tx.session().command_keys().remove_expired(rules.batch),
                .leases = tx.session().leases().remove_unused(rules.leases, rules.batch),
                .executions =
                    tx.session().jobs().runs().remove_ended(rules.executions, rules.batch)};
        });
        report.finished += removed.finished;
        report.dead += removed.dead;
        report.dedup_keys += removed.dedup_keys;
        report.joins += removed.joins;
        report.inbox += removed.inbox;
        report.command_keys += removed.command_keys;
        report.leases += removed.leases;
        report.executions += removed.executions;
        if (removed.finished < rules.batch && removed.dead < rules.batch &&
            removed.dedup_keys < rules.batch && removed.joins < rules.batch &&
            removed.inbox < rules.batch && removed.command_keys < rules.batch &&
            removed.leases < rules.batch && removed.executions < rules.batch)
            break;
    }
    return report;
}

} // namespace posthorn
