// A dump is a line with the time of reading, then one line per message with the fields that the
// rules look at.
#include "checker/final_state.hpp"

#include "checker/history.hpp"
#include "checker/json_fields.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace posthorn::checker {
namespace {

using nlohmann::json;

json to_json_line(const message_record& what)
{
    json line{{"id", to_string(what.id)},
              {"position", what.position},
              {"state", to_string(what.state)},
              {"topic", what.topic},
              {"due_at", to_json_time(what.due_at)},
              {"attempts", what.attempts},
              {"redrives", what.redrives}};
    put(line, "key", what.ordering_key);
    put(line, "finished_at", what.finished_at);
    if (const auto from = origin_of(what)) {
        line["source"] = from->source;
        line["source_id"] = from->id;
    }
    if (what.blocks_key)
        line["blocks_key"] = true;
    return line;
}

message_state read_state(json_fields& from)
{
    const auto text = from.text("state");
    const auto state = parse_message_state(text);
    if (!state)
        throw error(error_code::invalid_argument, fmt::format("'{}' is not a state", text));
    return *state;
}

message_record parse_record(json_fields from)
{
    message_record result;
    result.id = from.id("id");
    result.position = from.integer("position");
    result.state = read_state(from);
    result.topic = from.text("topic");
    result.ordering_key = from.text_or_empty("key");
    result.due_at = from.time("due_at");
    result.finished_at = from.optional_time("finished_at");
    result.attempts = static_cast<int>(from.integer("attempts"));
    result.redrives = static_cast<int>(from.integer_or_zero("redrives"));
    result.blocks_key = from.flag("blocks_key");
    if (from.has("source")) {
        result.headers.emplace(inbox_source_header, from.text("source"));
        result.headers.emplace(inbox_id_header, from.text("source_id"));
    }
    from.finish();
    return result;
}

inbound parse_effect(json_fields from)
{
    inbound result{.source = from.text("source"), .id = from.text("effect_of")};
    from.finish();
    return result;
}

} // namespace

std::optional<inbound> origin_of(const message_record& row)
{
    const auto source = row.headers.find(std::string(inbox_source_header));
    const auto id = row.headers.find(std::string(inbox_id_header));
    if (source == row.headers.end() || id == row.headers.end())
        return std::nullopt;
    return inbound{.source = source->second, .id = id->second};
}

final_state read_final(store& where)
{
    final_state result{.read_at = where.environment().clock->now(), .messages = {}};
    message_filter page{.limit = 1'000};
    for (;;) {
        auto found = list_messages(where, page);
        if (found.empty())
            break;
        page.after_position = found.back().position;
        std::ranges::move(found, std::back_inserter(result.messages));
    }
    return result;
}

final_state read_final(const std::filesystem::path& dump)
{
    final_state result;
    bool first = true;
    const bool torn = for_each_line(dump, [&](std::string_view line) {
        auto from = json_fields::parse(line);
        if (std::exchange(first, false)) {
            result.read_at = from.time("read_at");
            if (from.flag("with_effects"))
                result.effects.emplace();
            from.finish();
        } else if (result.effects && from.has("effect_of")) {
            result.effects->push_back(parse_effect(std::move(from)));
        } else {
            result.messages.push_back(parse_record(std::move(from)));
        }
    });
    if (torn || first)
        throw error(error_code::invalid_argument,
                    fmt::format("{} is {}", dump.string(), torn ? "cut off" : "empty"));
    return result;
}

void write_final(const final_state& what, const std::filesystem::path& dump)
{
    std::ofstream into(dump, std::ios::binary);
    json first{{"read_at", to_json_time(what.read_at)}};
    if (what.effects)
        first["with_effects"] = true;
    into << first.dump() << '\n';
    for (const auto& each : what.messages)
        into << to_json_line(each).dump() << '\n';
    for (const auto& each : what.effects.value_or(std::vector<inbound>{}))
        into << json{{"source", each.source}, {"effect_of", each.id}}.dump() << '\n';
    into.close();
    if (!into)
        throw error(error_code::unavailable, fmt::format("{} cannot be written", dump.string()));
}

} // namespace posthorn::checker
