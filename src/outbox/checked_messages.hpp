// Messages that passed every check, in the form that stores take, with the text that their views
// refer to. What is enqueued inside a correlation scope belongs to it, unless it says otherwise.
#pragma once

#include "core/lineage.hpp"
#include "core/validation.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/message_writer.hpp"
#include "store/contract/session.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/message.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// One message on its way into a store. `own` are headers with our names, which are not checked.
struct to_check {
    const message& what;
    const enqueue_options& how;
    const headers* own = nullptr;
};

class message_check {
public:
    message_check(const environment& world, const limits& bounds)
        : world_(world),
          bounds_(bounds),
          now_(world.clock->now()),
          scope_(correlation_scope::current())
    {}

    /// The views of the result refer to the message, to `headers_json` and to this.
    contract::new_message operator()(const to_check& each, std::string& headers_json) const
    {
        const auto copied = without_number(each);
        const auto& values = copied ? *copied : each.how.headers;
        check(each, values);
        return made(each, values, headers_json);
    }

    /// The first half of the above, for those who still have to number the message.
    void check(const to_check& each) const
    {
        const auto copied = without_number(each);
        check(each, copied ? *copied : each.how.headers);
    }

    /// The second half, for a message that was checked.
    contract::new_message made(const to_check& each, std::string& headers_json) const
    {
        const auto copied = without_number(each);
        return made(each, copied ? *copied : each.how.headers, headers_json);
    }

private:
    void check(const to_check& each, const headers& values) const
    {
        const bool is_inbound = each.own != nullptr && each.own->contains(inbox_source_header);
        core::check_message(each.what, each.how, values, bounds_,
                            is_inbound ? core::enqueued_by::inbox : core::enqueued_by::application);
        core::check_start_window(each.how, now_);
    }

    contract::new_message made(const to_check& each, const headers& values,
                               std::string& headers_json) const
    {
        const auto& how = each.how;
        headers_json = json_of(values, each.own);
        contract::new_message result{.id = how.id,
                                     .topic = each.what.topic,
                                     .payload = each.what.payload,
                                     .ordering_key = how.ordering_key,
                                     .correlation_id = how.correlation_id,
                                     .causation_id = how.causation_id,
                                     .headers_json = headers_json,
                                     .priority = how.priority,
                                     .due = {},
                                     .expiry = {},
                                     .dedup_key = how.dedup_key,
                                     .dedup_window = how.dedup_window,
                                     .join = how.join};
        if (how.delay)
            result.due = *how.delay;
        else if (how.due_at)
            result.due = *how.due_at;
        if (how.expires_after)
            result.expiry = *how.expires_after;
        else if (how.expires_at)
            result.expiry = *how.expires_at;
        if (scope_)
            inherit(result);
        return result;
    }

    // A handler may pass on the headers of what it handles, and a publisher may have numbered that,
    // or it is the run of a job: neither is true of the new message. Nothing: there is none of
    // them.
    [[nodiscard]] std::optional<headers> without_number(const to_check& each) const
    {
        if (!scope_ || scope_->cause().empty())
            return std::nullopt;
        const auto& given = each.how.headers;
        const auto is_of_another = [&](const headers::value_type& one) {
            return (each.own == nullptr && one.first == header::correlation_sequence) ||
                   one.first.starts_with(header::job) || one.first == header::execution;
        };
        if (std::ranges::none_of(given, is_of_another))
            return std::nullopt;
        auto rest = given;
        std::erase_if(rest, is_of_another);
        return rest;
    }

    // Two views into the scope: nothing is copied, and no header is added.
    void inherit(contract::new_message& into) const
    {
        if (into.correlation_id.empty())
            into.correlation_id = scope_->id();
        if (into.causation_id.empty())
            into.causation_id = scope_->cause();
    }

    [[nodiscard]] std::string json_of(const headers& values, const headers* own) const
    {
        const bool traced = scope_ && !scope_->traceparent().empty();
        if (own == nullptr && !traced)
            return core::headers_to_json(values);
        auto all = values;
        if (own != nullptr)
            all.insert(own->begin(), own->end());
        if (traced)
            core::add_trace(all, *scope_, *world_.random); // unless it names a trace itself
        return core::headers_to_json(all);
    }

    const environment& world_;
    const limits& bounds_;
    timestamp now_;
    std::shared_ptr<correlation> scope_; // shared with the scope: the views refer to its text
};

struct checked_message {
    checked_message(const to_check& what, const environment& world, const limits& bounds)
        : check(world, bounds), value(check(what, headers_json))
    {}
    checked_message(const checked_message&) = delete;
    checked_message& operator=(const checked_message&) = delete;

    message_check check;
    std::string headers_json;
    contract::new_message value;
};

struct checked_messages {
    checked_messages(const environment& world, const limits& bounds, std::size_t expected)
        : check(world, bounds)
    {
        values.reserve(expected);
    }
    checked_messages(const checked_messages&) = delete;
    checked_messages& operator=(const checked_messages&) = delete;

    void add(const to_check& each) { values.push_back(check(each, headers_json.emplace_back())); }

    /// One that `check.check` has let through.
    void add_checked(const to_check& each)
    {
        values.push_back(check.made(each, headers_json.emplace_back()));
    }

    message_check check;
    std::deque<std::string> headers_json; // which leaves its elements where they are
    std::vector<contract::new_message> values;
};

/// Whether any of them is to become a member of a join.
[[nodiscard]] inline bool any_joins(std::span<const contract::new_message> messages)
{
    return std::ranges::any_of(messages, [](const auto& each) { return each.join.has_value(); });
}

/// New members that belong to nothing belong to what their join belongs to.
[[nodiscard]] inline std::vector<contract::new_message> with_correlations_of_joins(
    contract::session& session, std::span<const contract::new_message> messages)
{
    std::vector<contract::new_message> result(messages.begin(), messages.end());
    for (auto& each : result)
        if (each.join && each.correlation_id.empty())
            each.correlation_id = session.joins().correlation_of(*each.join);
    return result;
}

/// Inserts messages of which some may be for joins.
[[nodiscard]] inline std::vector<enqueued> insert_into(
    contract::session& session, std::span<const contract::new_message> messages)
{
    const bool inherits = std::ranges::any_of(
        messages, [](const auto& each) { return each.join && each.correlation_id.empty(); });
    return inherits ? session.writer().insert(with_correlations_of_joins(session, messages))
                    : session.writer().insert(messages);
}

/// Attaches messages to their joins, in the transaction that has inserted them.
inline void attach_inserted(contract::session& session,
                            std::span<const contract::new_message> messages,
                            std::span<const enqueued> result)
{
    std::map<join_id, std::vector<locator>> added;
    std::map<join_id, std::vector<message_id>> known;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (!messages[i].join)
            continue;
        if (result[i].duplicate)
            known[*messages[i].join].push_back(result[i].id);
        else
            added[*messages[i].join].push_back(result[i]);
    }
    for (const auto& [join, ids] : known) // which may have ended already
        session.joins().attach(join, ids);
    for (const auto& [join, where] : added)
        session.joins().attach_new(join, where);
}

/// Inserts, and attaches to joins in the same transaction.
[[nodiscard]] inline std::vector<enqueued> insert_and_attach(
    contract::session& session, std::span<const contract::new_message> messages)
{
    auto result = insert_into(session, messages);
    if (any_joins(messages))
        attach_inserted(session, messages, result);
    return result;
}

} // namespace posthorn
