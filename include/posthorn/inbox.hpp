// The inbox: what comes from outside, and may come again, has one effect.
//
//     ph::enqueue_inbound(store, {.source = "shop", .id = "4711"}, {"orders.placed", body});
//     worker.handle(ph::inbox_topic("orders.placed"), &book_order);
//
// or at once, in a transaction that the caller has anyway:
//
//     ph::once(tx, "shop", "4711", [&] { book(tx, order); });
//
// A message from outside is a message of the queue: workers, retries, ordering keys and dead
// letters are the same. See docs/decisions/0015.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/message.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace posthorn {

/// What its sender calls a message: together they are unique. Each has 1 to 255 bytes.
struct inbound {
    std::string source;
    std::string id;

    friend bool operator==(const inbound&, const inbound&) = default;
};

enum class inbox_state {
    seen,       ///< known, and not handled yet
    processing, ///< somebody is at it
    done,       ///< handled: further deliveries change nothing
    dead,       ///< given up, until it is revived
};

[[nodiscard]] std::string_view to_string(inbox_state state) noexcept;
[[nodiscard]] std::optional<inbox_state> parse_inbox_state(std::string_view text) noexcept;

/// The topic under which workers meet messages of this one from outside: `inbox:TOPIC`.
[[nodiscard]] std::string inbox_topic(std::string_view topic);

/// The headers by which such a message names where it came from.
inline constexpr std::string_view inbox_source_header = "posthorn-source";
inline constexpr std::string_view inbox_id_header = "posthorn-source-id";

struct inbox_options {
    /// What the content is known by, up to 255 bytes. Another one for the same message is logged as
    /// a warning, and never refused.
    std::string content_hash = {};

    /// When and in which order it is handled. `id`, `dedup_key` and `dedup_window` are not used.
    enqueue_options delivery = {};
};

enum class inbox_answer {
    added,    ///< it is new
    replaced, ///< it was waiting, or is dead: it has the new payload, and is where it was
    held,     ///< a worker has it: nothing changed
    known,    ///< it was done: nothing changed
};

[[nodiscard]] std::string_view to_string(inbox_answer answer) noexcept;

struct inbox_receipt {
    inbox_answer answer = inbox_answer::added;
    std::optional<message_id> message; ///< nothing: it was handled without the queue
    bool hash_differs = false;
};

/// Stores a message from outside, to be handled by a worker; acknowledge it to its sender when the
/// transaction has committed. Throws: `error` with `invalid_argument` before anything is written.
inbox_receipt enqueue_inbound(transaction& tx, const inbound& from, const message& what,
                              const inbox_options& how = {});
inbox_receipt enqueue_inbound(store& where, const inbound& from, const message& what,
                              const inbox_options& how = {});

/// Remembers that a message was seen. True: it has been handled, do nothing.
[[nodiscard]] bool already_processed(transaction& tx, const inbound& from,
                                     std::string_view content_hash = {});
[[nodiscard]] bool already_processed(store& where, const inbound& from,
                                     std::string_view content_hash = {});

enum class mark_answer {
    marked,
    known,  ///< it was done, or so already: nothing changed
    queued, ///< it is in the queue, where its handler decides: nothing changed
};

[[nodiscard]] std::string_view to_string(mark_answer answer) noexcept;

/// For those who handle messages from outside without the queue and without `once`. A message that
/// nobody has seen is remembered in the same step.
mark_answer mark_processing(transaction& tx, const inbound& from);
mark_answer mark_processing(store& where, const inbound& from);
mark_answer mark_processed(transaction& tx, const inbound& from);
mark_answer mark_processed(store& where, const inbound& from);
mark_answer mark_dead(transaction& tx, const inbound& from);
mark_answer mark_dead(store& where, const inbound& from);

/// Gives a dead message new attempts, due after `delay`; one without a message in the queue is seen
/// again. False: it is not dead.
bool revive(transaction& tx, const inbound& from, duration delay = {});
bool revive(store& where, const inbound& from, duration delay = {});

/// Everything known about one message from outside.
struct inbox_record {
    std::int64_t position = 0; ///< the store's own number for it
    inbound from;
    inbox_state state = inbox_state::seen;
    std::optional<message_id> message; ///< the newest that the queue had of it
    std::string content_hash;
    timestamp seen_at;
    std::optional<timestamp> settled_at; ///< since when it is done or dead
};

[[nodiscard]] std::optional<inbox_record> find_inbound(transaction& tx, const inbound& from);
[[nodiscard]] std::optional<inbox_record> find_inbound(store& where, const inbound& from);

/// Which of them to look at. Everything is optional and combines with "and". `processing` finds
/// those that were marked so; those that a worker has are `seen`.
struct inbox_filter {
    std::optional<inbox_state> state = {};
    std::string source = {};
    std::int64_t after_position = 0; ///< where the next page starts
    std::size_t limit = 50;
};

/// One page, in the order in which they were seen first.
[[nodiscard]] std::vector<inbox_record> list_inbound(store& where, const inbox_filter& filter = {});

namespace inbox_detail {

/// True: the row is done now, and its effect must become part of `tx`.
[[nodiscard]] bool begin_once(transaction& tx, const inbound& from, std::string_view content_hash);

/// The effect failed. In a transaction that goes on, it may be tried again.
void undo_once(transaction& tx, const inbound& from) noexcept;

template <typename Function>
void call(Function& function, transaction& tx)
{
    if constexpr (std::is_invocable_v<Function&, transaction&>)
        std::invoke(function, tx);
    else
        std::invoke(function);
}

/// Runs again what the database gave up.
bool once_in(store& where, const std::function<bool(transaction&)>& work);

} // namespace inbox_detail

/// Runs `function`, with the transaction if it takes one, unless this message was handled before.
/// What it writes through `tx`, the messages it enqueues and the memory of it commit together or
/// not at all; a second delivery meanwhile waits for `tx` to end.
/// Returns: whether it ran. It also does not if the message is in the queue.
template <typename Function>
bool once(transaction& tx, const std::string& source, const std::string& id, Function&& function,
          std::string_view content_hash = {})
{
    const inbound from{.source = source, .id = id};
    if (!inbox_detail::begin_once(tx, from, content_hash))
        return false;
    try {
        inbox_detail::call(function, tx);
    } catch (...) {
        inbox_detail::undo_once(tx, from);
        throw;
    }
    return true;
}

/// The same in a transaction of its own.
template <typename Function>
bool once(store& where, const std::string& source, const std::string& id, Function&& function,
          std::string_view content_hash = {})
{
    return inbox_detail::once_in(
        where, [&](transaction& tx) { return once(tx, source, id, function, content_hash); });
}

} // namespace posthorn
