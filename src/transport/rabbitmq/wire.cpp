// Frames over a stream: the greeting, then whatever is put and received.
#include "transport/rabbitmq/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn::rabbitmq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int wanted_frame_bytes_max = 131'072;
constexpr std::size_t read_bytes = std::size_t{128} * 1024;
constexpr std::uint32_t frame_bytes_least = 4096; // AMQP: each side takes at least this
constexpr std::size_t frame_overhead = 8;    // kind, channel and length before, an end mark behind
constexpr std::uint8_t other_protocol = 'A'; // the decoder's sign for a broker's own header
constexpr std::string_view protocol_header{"AMQP\x00\x00\x09\x01", 8};

void append_number(std::string& to, std::uint64_t number, int bytes)
{
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
        to.push_back(static_cast<char>(number >> static_cast<unsigned>(shift) & 0xffU));
}

amqp_table_entry_t flag_entry(const char* name)
{
    amqp_table_entry_t result{};
    result.key = amqp_cstring_bytes(name);
    result.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    result.value.value.boolean = 1;
    return result;
}

amqp_table_entry_t text_entry(const char* name, std::string_view text)
{
    amqp_table_entry_t result{};
    result.key = amqp_cstring_bytes(name);
    result.value.kind = AMQP_FIELD_KIND_UTF8;
    result.value.value.bytes = bytes_of(text);
    return result;
}

} // namespace

wire::wire(const address& to, const rabbitmq_connection& how, alarm& wake,
           const std::atomic<bool>& over, std::shared_ptr<clock> time)
    : wake_(wake),
      time_(std::move(time)),
      stream_(to, how),
      decoder_(amqp_new_connection()),
      scratch_(static_cast<std::size_t>(wanted_frame_bytes_max)),
      in_(read_bytes)
{
    if (!decoder_)
        throw broken("no memory for a connection");
    const auto until = time_->monotonic() + how.connect_within;
    sent_at_ = heard_at_ = time_->monotonic();
    connect(over, until);
    log_in(to, how, over, until);
}

wire::~wire() = default;

// -------------------------------------------------------------------------------------- greeting

void wire::connect(const std::atomic<bool>& over, instant until)
{
    // An address that never answers must not use up the time of those behind it.
    std::optional<std::size_t> others;
    auto share_ends = until;
    while (!stream_.ready()) {
        const auto now = time_->monotonic();
        if (others != stream_.others()) {
            others = stream_.others();
            share_ends = now + (until - now) / static_cast<std::int64_t>(*others + 1);
        }
        if (now < share_ends || !stream_.next_candidate())
            pause(over, until, share_ends - now);
    }
}

void wire::pause(const std::atomic<bool>& over, instant until, std::optional<duration> at_most)
{
    const auto now = time_->monotonic();
    if (over)
        throw broken("closed");
    if (now >= until)
        throw broken("the broker did not answer in time");
    const auto left = std::min<duration>(until - now, at_most.value_or(until - now));
    wake_.wait(stream_.socket(), unsent() > 0 || stream_.wants_to_write(), left);
}

void wire::log_in(const address& to, const rabbitmq_connection& how, const std::atomic<bool>& over,
                  instant until)
{
    out_.append(protocol_header);
    await(AMQP_CONNECTION_START_METHOD, over, until, [](void*) {});
    std::array capabilities{flag_entry("authentication_failure_close"), flag_entry("basic.nack"),
                            flag_entry("connection.blocked"), flag_entry("consumer_cancel_notify"),
                            flag_entry("publisher_confirms")};
    amqp_table_entry_t able{};
    able.key = amqp_cstring_bytes("capabilities");
    able.value.kind = AMQP_FIELD_KIND_TABLE;
    able.value.value.table = {.num_entries = static_cast<int>(capabilities.size()),
                              .entries = capabilities.data()};
    std::array properties{text_entry("product", "Posthorn"),
                          text_entry("connection_name", how.name), able};
    std::string secret;
    secret.append(1, '\0').append(to.user).append(1, '\0').append(to.password);
    put(0, AMQP_CONNECTION_START_OK_METHOD,
        amqp_connection_start_ok_t{
            .client_properties = {.num_entries = static_cast<int>(properties.size()),
                                  .entries = properties.data()},
            .mechanism = bytes_of("PLAIN"),
            .response = bytes_of(secret),
            .locale = bytes_of("en_US")});
    await(AMQP_CONNECTION_TUNE_METHOD, over, until,
          [&](void* said) { tune(*static_cast<amqp_connection_tune_t*>(said), how); });
    put(0, AMQP_CONNECTION_OPEN_METHOD,
        amqp_connection_open_t{
            .virtual_host = bytes_of(to.vhost), .capabilities = {}, .insist = 0});
    await(AMQP_CONNECTION_OPEN_OK_METHOD, over, until, [](void*) {});
}

void wire::tune(const amqp_connection_tune_t& offered, const rabbitmq_connection& how)
{
    amqp_connection_tune_ok_t agreed{
        .channel_max = offered.channel_max,
        .frame_max = wanted_frame_bytes_max,
        .heartbeat =
            static_cast<std::uint16_t>(std::clamp<std::int64_t>(how.heartbeat.count(), 0, 65535))};
    if (offered.frame_max != 0 && offered.frame_max < frame_bytes_least) // 0: there is no limit
        throw broken(fmt::format("the broker takes frames of {} bytes; AMQP asks for at least {}",
                                 offered.frame_max, frame_bytes_least));
    if (offered.frame_max != 0)
        agreed.frame_max = std::min(agreed.frame_max, offered.frame_max);
    if (offered.heartbeat != 0 && agreed.heartbeat != 0)
        agreed.heartbeat = std::min(agreed.heartbeat, offered.heartbeat);
    frame_bytes_max_ = agreed.frame_max;
    if (amqp_tune_connection(decoder_.get(), 0, static_cast<int>(agreed.frame_max), 0) != 0)
        throw broken("no memory for a connection");
    heartbeat_ = seconds{agreed.heartbeat};
    put(0, AMQP_CONNECTION_TUNE_OK_METHOD, agreed);
}

void wire::await(amqp_method_number_t number, const std::atomic<bool>& over, instant until,
                 const std::function<void(void*)>& take)
{
    for (bool found = false; !found;) {
        flush();
        receive([&](const amqp_frame_t& frame) {
            if (frame.frame_type == other_protocol)
                throw broken("the broker speaks another version of AMQP");
            if (frame.frame_type != AMQP_FRAME_METHOD)
                return;
            const auto& method = frame.payload.method;
            if (method.id == AMQP_CONNECTION_CLOSE_METHOD)
                throw broken("the broker says no: " +
                             closing_words(*static_cast<amqp_connection_close_t*>(method.decoded)));
            if (method.id == number) {
                found = true;
                take(method.decoded);
            }
        });
        if (!found)
            pause(over, until);
    }
}

// ---------------------------------------------------------------------------------------- frames

void wire::put_frame(std::uint8_t kind, amqp_channel_t channel, std::string_view content)
{
    append_number(out_, kind, 1);
    append_number(out_, channel, 2);
    append_number(out_, content.size(), 4);
    out_.append(content);
    append_number(out_, AMQP_FRAME_END, 1);
}

void wire::put_method(amqp_channel_t channel, amqp_method_number_t number, void* method)
{
    const auto length = amqp_encode_method(
        number, method, {.len = scratch_.size() - 4, .bytes = scratch_.data() + 4});
    if (length < 0)
        throw broken(fmt::format("a method cannot be written: {}", amqp_error_string2(length)));
    for (unsigned i = 0; i < 4; ++i)
        scratch_[i] = static_cast<char>(number >> (24U - 8U * i) & 0xffU);
    put_frame(AMQP_FRAME_METHOD, channel, {scratch_.data(), static_cast<std::size_t>(length) + 4});
}

bool wire::put_content(amqp_channel_t channel, amqp_basic_publish_t method,
                       amqp_basic_properties_t& properties, std::string_view body)
{
    constexpr std::size_t before = 12; // class, weight and the size of the body
    const auto before_it = out_.size();
    put_method(channel, AMQP_BASIC_PUBLISH_METHOD, &method);
    const auto room = frame_bytes_max_ - frame_overhead - before;
    const auto length = amqp_encode_properties(AMQP_BASIC_CLASS, &properties,
                                               {.len = room, .bytes = scratch_.data() + before});
    if (length < 0) {
        out_.resize(before_it);
        return false;
    }
    std::string lead;
    append_number(lead, AMQP_BASIC_CLASS, 2);
    append_number(lead, 0, 2);
    append_number(lead, body.size(), 8);
    std::ranges::copy(lead, scratch_.data());
    put_frame(AMQP_FRAME_HEADER, channel,
              {scratch_.data(), static_cast<std::size_t>(length) + before});
    while (!body.empty()) {
        const auto piece = body.substr(0, frame_bytes_max_ - frame_overhead);
        put_frame(AMQP_FRAME_BODY, channel, piece);
        body.remove_prefix(piece.size());
    }
    return true;
}

void wire::flush()
{
    while (unsent() > 0) {
        const auto sent = stream_.write(std::span(out_).subspan(first_));
        if (sent == 0)
            break;
        first_ += sent;
        flushed_ += sent;
        sent_at_ = time_->monotonic();
    }
    if (unsent() == 0) {
        out_.clear();
        first_ = 0;
        if (stream_.wants_to_write())
            (void)stream_.write({}); // what TLS has still to send
    } else if (first_ > out_.size() / 2) {
        out_.erase(0, first_);
        first_ = 0;
    }
}

void wire::receive(const std::function<void(const amqp_frame_t&)>& take)
{
    // One read may leave more behind, which the next wait finds at once.
    auto left = std::span(in_).first(stream_.read(in_));
    if (left.empty())
        return;
    heard_at_ = time_->monotonic();
    while (!left.empty()) {
        amqp_frame_t frame{};
        const auto used =
            amqp_handle_input(decoder_.get(), {.len = left.size(), .bytes = left.data()}, &frame);
        if (used <= 0)
            throw broken(
                fmt::format("the broker said what is not AMQP: {}", amqp_error_string2(used)));
        left = left.subspan(static_cast<std::size_t>(used));
        if (frame.frame_type != 0 && frame.frame_type != AMQP_FRAME_HEARTBEAT)
            take(frame);
        amqp_maybe_release_buffers(decoder_.get());
    }
}

void wire::beat()
{
    if (heartbeat_ == duration::zero())
        return;
    const auto now = time_->monotonic();
    if (now - heard_at_ > heartbeat_ * 2)
        throw broken("the broker has been silent for too long");
    // What is waiting to be sent is a sign of life that cannot leave: another would not either.
    if (now - sent_at_ >= heartbeat_ / 2 && unsent() == 0) {
        put_frame(AMQP_FRAME_HEARTBEAT, 0, {});
        flush();
    }
}

void wire::wait(std::optional<duration> at_most)
{
    beat();
    if (stream_.has_input())
        at_most = duration::zero();
    if (heartbeat_ != duration::zero())
        at_most = std::min<duration>(at_most.value_or(heartbeat_ / 4), heartbeat_ / 4);
    wake_.wait(stream_.socket(), unsent() > 0 || stream_.wants_to_write(), at_most);
}

void wire::leave() noexcept
{
    try {
        bool left = false;
        const auto until = time_->monotonic() + milliseconds{500};
        put(0, AMQP_CONNECTION_CLOSE_METHOD,
            amqp_connection_close_t{
                .reply_code = 200, .reply_text = bytes_of("bye"), .class_id = 0, .method_id = 0});
        while (!left && time_->monotonic() < until) {
            flush();
            receive([&](const amqp_frame_t& frame) {
                left = left || (frame.frame_type == AMQP_FRAME_METHOD &&
                                frame.payload.method.id == AMQP_CONNECTION_CLOSE_OK_METHOD);
            });
            if (!left)
                wake_.wait(stream_.socket(), unsent() > 0 || stream_.wants_to_write(),
                           until - time_->monotonic());
        }
    } catch (const std::exception&) {
        (void)0; // it is gone, as wanted
    }
}

} // namespace posthorn::rabbitmq
