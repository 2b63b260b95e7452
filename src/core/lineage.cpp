// The rule, and the headers it reads and writes.
#include "core/lineage.hpp"

#include "core/trace_context.hpp"
#include "core/validation.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn::core {
namespace {

std::string taken_out(headers& from, std::string_view name)
{
    std::string value(find_header(from, name));
    erase_header(from, name);
    return value;
}

std::string one_of(std::string_view field, std::string option, std::string from_header)
{
    if (option.empty())
        return from_header;
    if (!from_header.empty() && from_header != option)
        throw error(
            error_code::invalid_argument,
            fmt::format("{} is given twice, as an option and as a header, and they differ", field));
    return option;
}

std::optional<message_id> id_in(const std::string& text)
{
    if (text.empty())
        return std::nullopt;
    const auto id = message_id::parse(text);
    if (!id)
        throw error(error_code::invalid_argument,
                    fmt::format("the header '{}' is not a UUID", header::message_id));
    return id;
}

void check_sequence(std::string_view text)
{
    constexpr std::size_t digits_max = 18;
    const bool number = text.size() <= digits_max &&
                        std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!number)
        throw error(error_code::invalid_argument,
                    fmt::format("the header '{}' is not a number", header::correlation_sequence));
}

void drop_trace(headers& values)
{
    erase_header(values, header::traceparent);
    erase_header(values, header::tracestate);
}

// A trace that is given is the caller's own span, so it stays as it is.
void settle_trace(headers& values, const correlation* scope, random_source& random)
{
    if (!values.empty()) {
        const auto given = find_header(values, header::traceparent);
        if (is_traceparent(given)) {
            if (!is_tracestate(find_header(values, header::tracestate)))
                erase_header(values, header::tracestate);
            return;
        }
        drop_trace(values);
    }
    if (scope != nullptr)
        add_trace(values, *scope, random);
}

} // namespace

void add_trace(headers& values, const correlation& scope, random_source& random)
{
    if (scope.traceparent().empty() || !find_header(values, header::traceparent).empty())
        return;
    drop_trace(values);
    values.emplace(header::traceparent, next_traceparent(scope.traceparent(), random));
    if (!scope.tracestate().empty())
        values.emplace(header::tracestate, scope.tracestate());
}

lineage resolve_lineage(given_lineage given, headers& values, const correlation* scope, id_maker by,
                        const environment& world)
{
    const auto id = id_in(taken_out(values, header::message_id));
    if (id && given.id && *id != *given.id)
        throw error(error_code::invalid_argument,
                    "the message id is given twice, as an option and as a header, and they differ");
    lineage result{.id = given.id ? given.id : id,
                   .correlation_id = one_of("the correlation id", std::move(given.correlation_id),
                                            taken_out(values, header::correlation_id)),
                   .causation_id = one_of("the causation id", std::move(given.causation_id),
                                          taken_out(values, header::causation_id)),
                   .sequence = taken_out(values, header::correlation_sequence)};
    // Headers that were copied from another message may bring its number along.
    if (result.correlation_id.empty())
        result.sequence.clear();
    check_sequence(result.sequence);
    const bool begins = result.correlation_id.empty() && scope == nullptr;
    if (!result.id && (begins || by == id_maker::publisher))
        result.id = message_id(uuid::version_7(world.clock->now(), *world.random));
    if (begins) {
        result.correlation_id = to_string(*result.id);
        result.sequence = "0";
    } else if (result.correlation_id.empty()) {
        result.correlation_id = scope->id();
        result.numbered = true;
    }
    if (result.causation_id.empty() && scope != nullptr)
        result.causation_id = scope->cause();
    settle_trace(values, scope, *world.random);
    return result;
}

std::string drawn_numbers::draw()
{
    return fmt::format("{}", numbers_.emplace_back(of_->increment_sequence()));
}

void drawn_numbers::give_back_last() noexcept
{
    of_->give_back_sequence(numbers_.back());
    numbers_.pop_back();
}

void drawn_numbers::give_back() noexcept
{
    while (!numbers_.empty())
        give_back_last();
}

headers wire_headers(const lineage& from, message_id id, headers values)
{
    const auto set = [&](std::string_view name, const std::string& value) {
        if (!value.empty())
            values.insert_or_assign(std::string(name), value);
    };
    set(header::message_id, to_string(id));
    set(header::correlation_id, from.correlation_id);
    set(header::correlation_sequence, from.sequence);
    set(header::causation_id, from.causation_id);
    return values;
}

} // namespace posthorn::core
