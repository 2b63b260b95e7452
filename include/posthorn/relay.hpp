// Relays: handlers that send their messages on through a transport, many at once.
//
//     worker.handle("orders.*", ph::relay_to(rabbit, {.destination = "shop.{topic}"}));
//
// A message is done when the other side has accepted it. A side that is away costs no attempt: what
// is in hand waits for it, and the rest stays in the outbox. Messages of one ordering key keep
// their order; those that share only a key which a rule gives them do not.
#pragma once

#include <posthorn/handler.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn {

/// Text with places for what a message says of itself: `{topic}`, `{topic.N}` (its Nth part between
/// dots, from 1), `{key}`, `{id}`, `{store}` and `{header.NAME}`; `{{` and `}}` are braces.
///
/// In a URL of http or https no value changes where the URL leads. Values in the path and in the
/// query are percent-encoded. A place in front of the path (host, port, user) is refused, and so
/// is a value that makes a segment of the path `.` or `..`. A template that begins with a place
/// takes the beginning of the URL from the message; what follows has the same rules.
class message_template {
public:
    message_template() = default; ///< empty

    /// Throws: `error` with `invalid_argument` that names the place and what it may be, or that
    /// tells of a place in front of a URL's path.
    message_template(std::string_view text); // NOLINT: meant to convert
    message_template(const char* text) : message_template(std::string_view(text)) {}

    [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }

    /// Throws: `permanent_failure` if the message lacks what a place asks for, or has a value that
    /// a URL must not take.
    [[nodiscard]] std::string filled(const delivery& with, std::string_view store = {}) const;

private:
    enum class place { text, topic, topic_part, key, id, store, header };
    struct piece {
        place what = place::text;
        std::string text = {};  ///< the text itself, or a header's name
        std::size_t number = 0; ///< of a part of the topic
    };

    [[nodiscard]] static piece place_named(std::string_view name);
    [[nodiscard]] static std::string value_of(const piece& which, const delivery& with,
                                              std::string_view store);

    void check_url() const;

    std::vector<piece> pieces_;
};

struct relay_options {
    message_template destination = {}; ///< exchange, subject, stream or URL; else the transport's

    /// The key over there, such as Kafka's; else the ordering key. Only the ordering key keeps
    /// messages in order: those that share no more than this one may overtake each other.
    message_template key = {};

    /// How long a batch may take before what is unanswered counts as unknown, and is sent again.
    duration answer_within = std::chrono::seconds{30};

    /// For how long a message that was refused for now rests.
    duration pause = std::chrono::seconds{1};

    /// What becomes of a message that no queue, stream or topic would get.
    when_unroutable unroutable = when_unroutable::retry;
};

/// Stands for a handler that answers later.
struct relayed {};

/// A handler that relays. Those with the same transport share its batches.
class relay_to {
public:
    explicit relay_to(std::shared_ptr<transport> to, relay_options how = {});

    relayed operator()(const delivery_view&) const; ///< never called: tells what kind this is

    [[nodiscard]] const std::shared_ptr<transport>& to() const noexcept { return to_; }
    [[nodiscard]] const relay_options& how() const noexcept { return how_; }

private:
    std::shared_ptr<transport> to_; // shared with other rules
    relay_options how_;
};

namespace runtime {

/// Begins to relay, and calls `ended` when the other side has answered.
[[nodiscard]] any_handler::asynchronous make_relay(relay_to rule, shared_services& services);

template <>
struct handler_of_result<relayed> {
    static constexpr bool is_asynchronous = true;
    static constexpr bool only_waits = true;

    static any_handler::asynchronous make(relay_to rule, shared_services& services)
    {
        return make_relay(std::move(rule), services);
    }
};

} // namespace runtime
} // namespace posthorn
