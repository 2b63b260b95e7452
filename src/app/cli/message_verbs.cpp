// Verbs that add messages, look at them and take them back: enqueue, messages, message, cancel.
#include "app/cli/progress.hpp"
#include "app/cli/record_view.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

namespace posthorn::cli {
namespace {

[[noreturn]] void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

void check(const enqueue_request& what)
{
    if (what.payload.has_value() == what.payload_from_input)
        refuse("give the payload either with --payload, or as - to read it from standard input");
    if (what.count > 1 && !what.how.dedup_key.empty())
        refuse("--count and --dedup exclude each other: every copy would be a duplicate");
    if (what.count > 1 && what.how.id)
        refuse("--count and --id exclude each other: an id names one message");
}

// Reads no more than a store could take, however much there is.
std::string payload_from_input()
{
    constexpr auto bytes_max = limits{}.payload_bytes_max;
    std::string result;
    std::array<char, 65'536> chunk{};
    while (const auto length = std::fread(chunk.data(), 1, chunk.size(), stdin)) {
        result.append(chunk.data(), length);
        if (result.size() > bytes_max)
            refuse(fmt::format("the payload on standard input is larger than {} bytes", bytes_max));
    }
    if (std::ferror(stdin) != 0)
        throw error(error_code::unavailable, "standard input cannot be read");
    return result;
}

void enqueue_one(store& where, const message& content, const enqueue_request& what, output& to)
{
    const auto added = posthorn::enqueue(where, content, what.how);
    const auto id = to_string(added.id);
    to.answer({{"id", id}, {"position", added.position}, {"duplicate", added.duplicate}}, id);
    if (added.duplicate)
        to.note("duplicate: this message was enqueued before; nothing was added");
}

// Inside a command that `work` runs, what is enqueued belongs to what its message belongs to.
std::shared_ptr<correlation> context_of_command()
{
    const auto variable = [](const char* name) -> std::string {
        const char* value = std::getenv(name);
        return value == nullptr ? "" : value;
    };
    const auto handled = message_id::parse(variable("POSTHORN_ID"));
    if (!handled || handled->is_nil())
        return nullptr;
    const headers known{{std::string(header::correlation_id), variable("POSTHORN_CORRELATION_ID")},
                        {std::string(header::traceparent), variable("POSTHORN_HEADER_TRACEPARENT")},
                        {std::string(header::tracestate), variable("POSTHORN_HEADER_TRACESTATE")}};
    return std::make_shared<correlation>(correlation_of(*handled, known));
}

// A transaction of many small messages is fast; one of many large ones would only fill the memory.
std::size_t copies_per_transaction(const enqueue_request& what, std::size_t payload_bytes)
{
    constexpr std::size_t copies_max = 1'000;
    constexpr auto bytes_max = std::size_t{64} << 20U;
    const auto fitting = bytes_max / std::max<std::size_t>(payload_bytes, 1);
    return std::min(what.count, std::clamp<std::size_t>(fitting, 1, copies_max));
}

struct first_and_last {
    message_id first;
    message_id last;
};

first_and_last enqueue_copies(store& where, const message& content, const enqueue_request& what,
                              const output& to)
{
    const std::vector<outgoing> copies(copies_per_transaction(what, content.payload.size()),
                                       outgoing{content, what.how});
    progress_bar bar("enqueueing", what.count, to);
    first_and_last ids;
    std::size_t done = 0;
    try {
        while (done < what.count) {
            const auto next = std::min(copies.size(), what.count - done);
            const auto added = posthorn::enqueue(where, std::span(copies).first(next));
            ids = {.first = done == 0 ? added.front().id : ids.first, .last = added.back().id};
            bar.show(done += next);
        }
    } catch (const error& failure) {
        throw error(failure.code(),
                    fmt::format("{} (after {} of {} messages)", failure.what(), done, what.count));
    }
    return ids;
}

void enqueue_many(store& where, const message& content, const enqueue_request& what, output& to)
{
    const auto ids = enqueue_copies(where, content, what, to);
    const auto first = to_string(ids.first);
    const auto last = to_string(ids.last);
    to.answer({{"count", what.count}, {"first_id", first}, {"last_id", last}},
              fmt::format("{}\n{}", first, last));
    to.note(fmt::format("enqueued {}; above are the first id and the last",
                        counted(what.count, "message")));
}

} // namespace

exit_status enqueue(const enqueue_request& what, output& to)
{
    check(what);
    const message content{.topic = what.topic,
                          .payload = what.payload ? *what.payload : payload_from_input()};
    auto where = open(what.url);
    const auto scope = correlation_scope::resume(context_of_command());
    if (what.count == 1)
        enqueue_one(where, content, what, to);
    else
        enqueue_many(where, content, what, to);
    return exit_status::success;
}

exit_status messages(const list_request& what, output& to)
{
    auto where = open(what.url);
    auto filter = what.filter;
    if (what.state)
        what.state->narrow(filter);
    print_page(where, filter, list_view::all, to);
    return exit_status::success;
}

exit_status show_message(const message_request& what, output& to)
{
    auto where = open(what.url);
    const auto found = find_message(where, what.id);
    if (!found)
        throw error(error_code::not_found,
                    fmt::format("there is no message {}", to_string(what.id)));
    print_record(*found, what.with_payload ? payload_view::shown : payload_view::hidden,
                 where.environment().clock->now(), to);
    return exit_status::success;
}

exit_status cancel(const message_request& what, output& to)
{
    auto where = open(what.url);
    const auto answer = posthorn::cancel(where, what.id);
    to.answer({{"id", to_string(what.id)}, {"answer", to_string(answer)}}, to_string(answer));
    return answer == cancel_answer::cancelled ? exit_status::success : exit_status::failure;
}

} // namespace posthorn::cli
