// Transports: where messages go that leave the store, such as a broker, and what can become of
// each on the way. One contract for all of them.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/id.hpp>
#include <posthorn/message.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// A message as another system gets it.
struct transport_message {
    message_id id; ///< the same each time it is sent, so that others can tell repetitions
    std::string topic;
    std::string key = {};           ///< messages of one key keep their order; empty: no order
    std::string destination = {};   ///< exchange, subject, stream or URL; empty: as the topic says
    posthorn::headers headers = {}; ///< with ours, see correlation.hpp
    std::string payload = {};
};

/// The message that carries a delivery on, with all of its headers.
[[nodiscard]] transport_message to_transport(const delivery& which);

/// Why a message was not taken.
enum class refusal {
    none,
    unroutable,  ///< no queue, stream or topic would get it; one may be made a moment later
    gone,        ///< the other side said that this destination is gone for good
    too_large,   ///< more than this transport carries
    malformed,   ///< it cannot be expressed here, such as a header that the protocol forbids
    denied,      ///< we are not allowed to send it there
    declined,    ///< whoever got it does not want it like this, until people change something
    rejected,    ///< whoever got it said no; it may say yes another time
    held_back,   ///< not sent, because an earlier one of its key was not accepted
    busy,        ///< the other side asked us to slow down
    unavailable, ///< the other side cannot be reached
    closed,      ///< the transport was closed
};

[[nodiscard]] std::string_view to_string(refusal why) noexcept;

/// Whether sending the same message again, later, would be in vain.
[[nodiscard]] bool is_permanent(refusal why) noexcept;

/// What became of one message.
struct publish_answer {
    enum class kind {
        accepted, ///< it is theirs: it will not be lost
        refused,  ///< it is not theirs, and never was
        unknown,  ///< it was sent, and nobody said what became of it: it may have arrived
    };

    kind verdict = kind::unknown;
    refusal why = refusal::none;
    bool duplicate = false;                ///< accepted before under the same id, so not again
    std::string detail = {};               ///< for people; never a payload
    std::optional<duration> retry_in = {}; ///< when the other side said so

    [[nodiscard]] bool accepted() const noexcept { return verdict == kind::accepted; }

    [[nodiscard]] static publish_answer yes();
    [[nodiscard]] static publish_answer no(refusal why, std::string detail = {});
    [[nodiscard]] static publish_answer no_answer(std::string detail = {});
};

[[nodiscard]] std::string_view to_string(publish_answer::kind verdict) noexcept;

/// What becomes of a message that is unroutable.
enum class when_unroutable {
    retry, ///< it has failed, and the retry policy decides
    fail,  ///< it is dead at once
};

/// What an answer means for the outbox's message: accepted is done, and what is refused for good
/// is dead with its reason. One that was declined or is unroutable has failed, and the retry policy
/// decides. All else comes back after `pause` and costs no attempt: that the other side is away is
/// not the message's fault.
[[nodiscard]] outcome outcome_of(const publish_answer& answer, duration pause,
                                 when_unroutable unroutable = when_unroutable::retry);

/// What a transport can do and promise.
struct transport_capabilities {
    std::size_t payload_bytes_max = SIZE_MAX;
    std::size_t headers_bytes_max = SIZE_MAX;
    std::size_t batch_max = 1'000; ///< more is cut into pieces
    std::size_t calls_at_once = 2; ///< as many make it faster: one waits while the next is sent

    bool confirms = false;              ///< accepted means that the other side has said so
    bool reports_unroutable = false;    ///< else a message that nobody gets is accepted
    bool keeps_order = false;           ///< of one key, from batch to batch
    bool suppresses_duplicates = false; ///< by message id, for a while
};

/// How long a call may wait: until this time on the steady clock, or until it is told to stop.
struct time_limit {
    std::optional<monotonic_time> until = {};
    std::stop_token stop = {};
};

/// A way out. It connects by itself, and again after each interruption; nothing is thrown for a
/// side that is away.
/// Threads: safe to use from any; batches of several threads may overtake each other.
class transport {
public:
    transport() = default;
    transport(const transport&) = delete;
    transport& operator=(const transport&) = delete;
    virtual ~transport() = default;

    /// Sends messages and waits for what becomes of them. The answers are in the same order, one
    /// each. Sending does not wait for the answer to the one before, except that what follows a
    /// message which was not accepted is held back if it is of the same key and order is kept.
    /// When the time is over, what was not sent is refused, and what was is unknown.
    [[nodiscard]] virtual std::vector<publish_answer> publish(
        std::span<const transport_message> what, const time_limit& how_long) = 0;
    [[nodiscard]] std::vector<publish_answer> publish(std::span<const transport_message> what)
    {
        return publish(what, {});
    }

    /// Waits until it makes sense to publish: connected, and not asked to slow down. False: the
    /// time is over, or the transport is closed.
    [[nodiscard]] virtual bool wait_until_ready(const time_limit& how_long) = 0;

    /// Lets what is being published end, and refuses what comes after. Repeating it is harmless.
    virtual void close(const time_limit& how_long) = 0;
    void close() { close({}); }

    [[nodiscard]] virtual transport_capabilities capabilities() const = 0;

    /// For people and logs: what kind, and where to; never a secret.
    [[nodiscard]] virtual std::string name() const = 0;
};

} // namespace posthorn
