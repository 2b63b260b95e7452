// One AMQP connection: whole frames in and out, in memory until somebody lets them flow. The
// client library puts frames together and takes them apart; when bytes move is decided here, so
// that a thousand messages leave in a few writes, and every wait can be ended.
#pragma once

#include "transport/rabbitmq/stream.hpp"

#include <amqp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::rabbitmq {

[[nodiscard]] inline amqp_bytes_t bytes_of(std::string_view text)
{
    return {.len = text.size(), .bytes = const_cast<char*>(text.data())}; // NOLINT: it only reads
}
[[nodiscard]] inline std::string_view text_of(const amqp_bytes_t& bytes)
{
    return {static_cast<const char*>(bytes.bytes), bytes.len};
}

/// Of a declaration; the text has to live as long.
[[nodiscard]] inline amqp_table_entry_t argument(const char* name, std::string_view value)
{
    amqp_table_entry_t result{};
    result.key = amqp_cstring_bytes(name);
    result.value.kind = AMQP_FIELD_KIND_UTF8;
    result.value.value.bytes = bytes_of(value);
    return result;
}

class wire {
public:
    /// Connects and logs in. Throws: `broken`, also when `over` became true.
    wire(const address& to, const rabbitmq_connection& how, alarm& wake,
         const std::atomic<bool>& over, std::shared_ptr<clock> time);
    wire(const wire&) = delete;
    wire& operator=(const wire&) = delete;
    ~wire();

    // To be sent by the next `flush`.
    template <typename Method>
    void put(amqp_channel_t channel, amqp_method_number_t number, Method method)
    {
        put_method(channel, number, &method);
    }
    /// False: its properties are more than a frame can hold, and nothing was put.
    [[nodiscard]] bool put_content(amqp_channel_t channel, amqp_basic_publish_t method,
                                   amqp_basic_properties_t& properties, std::string_view body);

    /// Sends what can be sent without waiting.
    void flush();

    /// Hands over the frames that have come, without waiting.
    void receive(const std::function<void(const amqp_frame_t&)>& take);

    /// Until there is something to receive, or room to flush, or somebody rings; at most so long.
    /// Keeps the broker informed that we are here. Throws: `broken` if it is gone.
    void wait(std::optional<duration> at_most);

    /// Says goodbye and waits for the answer, but not long. Throws nothing.
    void leave() noexcept;

    [[nodiscard]] std::size_t unsent() const noexcept { return out_.size() - first_; }

    /// How many bytes were put, and how many of these have left.
    [[nodiscard]] std::uint64_t put_so_far() const noexcept { return flushed_ + unsent(); }
    [[nodiscard]] std::uint64_t flushed_so_far() const noexcept { return flushed_; }

private:
    using instant = monotonic_time;

    void connect(const std::atomic<bool>& over, instant until);
    void log_in(const address& to, const rabbitmq_connection& how, const std::atomic<bool>& over,
                instant until);
    void tune(const amqp_connection_tune_t& offered, const rabbitmq_connection& how);

    /// The next method on channel 0; a close of the connection is thrown.
    void await(amqp_method_number_t number, const std::atomic<bool>& over, instant until,
               const std::function<void(void*)>& take);
    void pause(const std::atomic<bool>& over, instant until,
               std::optional<duration> at_most = std::nullopt);

    void put_method(amqp_channel_t channel, amqp_method_number_t number, void* method);
    void put_frame(std::uint8_t kind, amqp_channel_t channel, std::string_view content);
    void beat();

    struct free_connection {
        void operator()(amqp_connection_state_t what) const { amqp_destroy_connection(what); }
    };

    alarm& wake_;
    std::shared_ptr<clock> time_; // the environment's
    stream stream_;
    std::unique_ptr<amqp_connection_state_t_, free_connection> decoder_;
    std::size_t frame_bytes_max_ = 4096;
    duration heartbeat_{0};
    instant sent_at_;
    instant heard_at_;

    std::vector<char> scratch_;
    std::string out_;
    std::size_t first_ = 0; // of out_, not sent yet
    std::uint64_t flushed_ = 0;
    std::vector<char> in_;
};

/// What a broker says when it closes a connection or a channel.
template <typename Close>
[[nodiscard]] std::string closing_words(const Close& said)
{
    return std::to_string(said.reply_code) + " " + std::string(text_of(said.reply_text));
}

} // namespace posthorn::rabbitmq
