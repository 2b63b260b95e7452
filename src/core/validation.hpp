// The rules for what may be enqueued, checked before anything is written.
#pragma once

#include <posthorn/message.hpp>

#include <string>
#include <string_view>

namespace posthorn::core {

/// Throws: `error` with `invalid_argument`, naming what is wrong and what would be right.
void check_message(const message& what, const enqueue_options& how, const limits& bounds);

/// Begins the topics of messages from outside.
inline constexpr std::string_view inbox_prefix = "inbox:";

/// Whether the topic is one of messages from outside: `inbox:TOPIC`.
[[nodiscard]] bool is_inbox_topic(std::string_view topic) noexcept;

/// Who enqueues: only the inbox may use its topics.
enum class enqueued_by { application, inbox };

/// The same with other headers than the options have.
void check_message(const message& what, const enqueue_options& how, const headers& values,
                   const limits& bounds, enqueued_by whom = enqueued_by::application);

/// Whether a header of this name is Posthorn's own, in any case of letters.
[[nodiscard]] bool is_reserved_header(std::string_view name) noexcept;

/// Refuses a topic that no message could have; an empty one may stand for something else.
void check_topic(std::string_view topic);

/// Refuses one that only the inbox may use, too.
void check_own_topic(std::string_view topic);

/// Refuses text that cannot be an ordering, dedup or correlation key; an empty one is no key.
void check_key(std::string_view field, std::string_view key);
[[nodiscard]] bool is_key(std::string_view text) noexcept;

/// UTF-8 without NUL characters, of any length.
[[nodiscard]] bool is_text(std::string_view text) noexcept;

/// Refuses a message that would expire before it is due, in whichever way the two are given.
void check_start_window(const enqueue_options& how, timestamp now);

/// Table prefixes and schema names go into SQL as they are, so they are held to
/// `[a-z_][a-z0-9_]{0,47}`.
void check_identifier(std::string_view what, std::string_view name);

/// The longest start of `text` within `bytes_max` that cuts no UTF-8 character in two.
[[nodiscard]] std::string_view truncated(std::string_view text, std::size_t bytes_max) noexcept;

/// Such a start of words that come from anywhere, as text: what is not UTF-8, and NUL, becomes
/// U+FFFD.
[[nodiscard]] std::string readable(std::string_view words, std::size_t bytes_max);

/// Headers as a JSON object of strings, the form in which every store keeps them; empty for none.
[[nodiscard]] std::string headers_to_json(const headers& values);

/// What a row has as headers, whatever that is: at most 4 MiB, and 16 levels deep. Headers that
/// cannot be read become a single one, with a reserved name, which says why.
[[nodiscard]] headers headers_from_json(std::string_view json);

/// Why these headers could not be read; empty if they could.
[[nodiscard]] std::string why_unreadable(const headers& values);

/// Why no handler may meet the message: it cannot be read, or has a topic of the inbox, which has
/// not stored it. Empty: one may.
[[nodiscard]] std::string why_not_handled(std::string_view topic, const headers& values);

} // namespace posthorn::core
