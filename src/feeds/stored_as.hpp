// How a message that somebody brought is kept in the inbox.
#pragma once

#include "core/lineage.hpp"
#include "core/validation.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/inbox.hpp>

#include <utility>

namespace posthorn {

/// It belongs to whatever it belonged to where it comes from, and what was sent is its cause.
[[nodiscard]] inline inbox_options stored_as(const fed_message& which, const environment& world)
{
    inbox_options result;
    auto values = which.headers;
    try {
        auto from = core::resolve_lineage({}, values, nullptr, core::id_maker::store, world);
        result.delivery.correlation_id = std::move(from.correlation_id);
    } catch (const error&) {
        values = which.headers; // broken by somebody on the way: no reason to lose a message
    }
    std::erase_if(values, [](const auto& each) { return core::is_reserved_header(each.first); });
    if (message_id::parse(which.id))
        result.delivery.causation_id = which.id;
    result.delivery.ordering_key = which.key;
    result.delivery.headers = std::move(values);
    return result;
}

} // namespace posthorn
