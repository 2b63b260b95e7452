// Carries reports from the stores of members to those of their joins. Counting is idempotent, so a
// report that may have arrived is simply sent again.
#include "core/join_report_headers.hpp"
#include "core/trace_context.hpp"
#include "outbox/in_transaction.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/numbered_id.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/handler.hpp>
#include <posthorn/joins.hpp>

#include <fmt/format.h>

#include <mutex>
#include <set>

namespace posthorn {
namespace {

struct addressed_report {
    remote_join to;
    contract::join_report what;
};

std::optional<member_state> state_named(std::string_view text)
{
    for (const auto each : {member_state::pending, member_state::completed, member_state::failed})
        if (to_string(each) == text)
            return each;
    return std::nullopt;
}

// Nothing: it is no report that Posthorn made.
std::optional<addressed_report> read_report(const delivery_view& which)
{
    const auto& from = which.headers();
    const auto join = join_id::parse(core::find_header(from, join_header));
    const auto member = message_id::parse(core::find_header(from, core::report_member_header));
    const auto state = state_named(core::find_header(from, core::report_state_header));
    std::string store(core::find_header(from, core::report_store_header));
    if (!join || !member || !state || store.empty())
        return std::nullopt;
    return addressed_report{.to = {.store = std::move(store), .join = *join},
                            .what = {.member = *member,
                                     .state = *state,
                                     .store = which.store(),
                                     .version = contract::number_in(which.id())}};
}

} // namespace

struct join_reports::state {
    state(store_provider among, join_report_options options)
        : world(among.environment()), stores(std::move(among)), how(std::move(options))
    {}

    environment world;
    router stores;
    join_report_options how;
    std::mutex mutex;
    std::set<std::string, std::less<>> away; ///< which the log was told about

    void note_away(const std::string& store, std::string_view why)
    {
        const std::lock_guard lock(mutex);
        if (away.insert(store).second && world.log)
            world.log(log_level::warning,
                      fmt::format("joins in the store '{}' cannot be told of their members, whose "
                                  "reports wait: {}",
                                  store, why));
    }

    void note_back(const std::string& store)
    {
        const std::lock_guard lock(mutex);
        if (away.erase(store) > 0 && world.log)
            world.log(
                log_level::info,
                fmt::format("joins in the store '{}' are told of their members again", store));
    }
};

join_reports::join_reports(store_provider among, join_report_options how)
    : state_(std::make_shared<state>(std::move(among), std::move(how)))
{
    if (state_->how.pause <= duration::zero())
        throw error(error_code::invalid_argument,
                    "the pause between two tries of a report must be more than zero");
}

outcome join_reports::operator()(const delivery_view& which) const
{
    auto report = read_report(which);
    if (!report)
        return fail("not a report that Posthorn made");
    auto& [to, what] = *report;
    if (!state_->how.own_name.empty())
        what.store = state_->how.own_name;
    try {
        auto where = state_->stores.store(to.store);
        const auto counted = in_transaction(where, [&](transaction& tx) {
            return tx.session().joins().count_report(to.join, what);
        });
        state_->note_back(to.store);
        return counted.refused.empty() ? done() : fail(counted.refused);
    } catch (const std::exception& failure) {
        state_->note_away(to.store, failure.what());
        return postpone(state_->how.pause);
    }
}

} // namespace posthorn
