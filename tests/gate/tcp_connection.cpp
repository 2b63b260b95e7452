// How bytes pass, wait and get lost.
#include "gate/tcp_connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/socket.h>

namespace posthorn::test {
namespace {

constexpr std::size_t waiting_bytes_max = std::size_t{1} << 20U;

void add(std::vector<pollfd>& watched, const socket& which, bool in, bool out)
{
    const int events = (in ? POLLIN : 0) | (out ? POLLOUT : 0);
    if (events != 0)
        watched.push_back({which.number(), static_cast<short>(events), 0});
}

} // namespace

bool tcp_connection::flow::has_room() const
{
    return !closed && waiting_bytes < waiting_bytes_max;
}

void tcp_connection::watch(instant now, std::vector<pollfd>& watched,
                           std::chrono::milliseconds& patience) const
{
    const auto due = [&](const flow& each) {
        if (each.waiting.empty() || each.waiting.front().due <= now)
            return !each.waiting.empty();
        const auto wait =
            std::chrono::ceil<std::chrono::milliseconds>(each.waiting.front().due - now);
        patience = patience.count() < 0 ? wait : std::min(patience, wait);
        return false;
    };
    add(watched, client_, to_server_.has_room(), due(to_client_));
    add(watched, server_, to_client_.has_room(), due(to_server_));
}

tcp_connection::moved tcp_connection::move(instant now, const delays& later,
                                           std::optional<planned_loss>& planned)
{
    moved result;
    while (const auto bytes = read_from(client_, to_server_)) {
        if (planned && completes(to_server_, planned->request, *bytes)) {
            loss_ = std::exchange(planned, std::nullopt);
            if (!loss_->of_the_reply) {
                result.lost_request = true;
                end(loss_->with_reset);
                return result;
            }
            to_client_.recent.clear();
        }
        put(to_server_, *bytes, now + later.to_server);
    }
    while (const auto bytes = read_from(server_, to_client_)) {
        if (!loss_) {
            put(to_client_, *bytes, now + later.to_client);
        } else if (completes(to_client_, loss_->answer, *bytes)) {
            result.lost_reply = true;
            end(loss_->with_reset);
            return result;
        }
    }
    if (!ended_)
        result.to_server = write_to(server_, to_server_, now);
    if (!ended_)
        result.to_client = write_to(client_, to_client_, now);
    if (to_server_.close_told && to_client_.close_told)
        end(false);
    return result;
}

void tcp_connection::end(bool with_reset)
{
    if (!std::exchange(ended_, true))
        with_reset_ = with_reset;
}

tcp_connection::~tcp_connection()
{
    for (auto* each : {&client_, &server_})
        with_reset_ ? each->close_with_reset() : each->close_in_peace();
}

bool tcp_connection::completes(flow& which, std::string_view word, std::string_view bytes)
{
    which.recent += bytes;
    const bool found = which.recent.find(word) != std::string::npos;
    const auto keep = word.empty() ? 0 : word.size() - 1;
    if (which.recent.size() > keep)
        which.recent.erase(0, which.recent.size() - keep);
    return found;
}

std::optional<std::string> tcp_connection::read_from(const socket& from, flow& into)
{
    if (ended_ || !into.has_room())
        return std::nullopt;
    std::array<char, 16'384> buffer; // NOLINT(*-member-init): written before it is read
    const auto got = ::recv(from.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0)
        return std::string(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0)
        into.closed = true;
    else if (errno != EAGAIN && errno != EINTR)
        end(true); // broken here, so broken there
    return std::nullopt;
}

void tcp_connection::put(flow& into, std::string bytes, instant due)
{
    // A delay that was made shorter must not let later bytes overtake.
    if (!into.waiting.empty())
        due = std::max(due, into.waiting.back().due);
    into.waiting_bytes += bytes.size();
    into.waiting.push_back({due, std::move(bytes)});
}

std::size_t tcp_connection::write_to(const socket& to, flow& from, instant now)
{
    std::size_t written = 0;
    while (!from.waiting.empty() && from.waiting.front().due <= now) {
        auto& bytes = from.waiting.front().bytes;
        const auto taken =
            ::send(to.number(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (taken < 0 && errno != EAGAIN && errno != EINTR) {
            end(true); // nobody is left to read it
            return written;
        }
        if (taken < 0)
            return written;
        written += static_cast<std::size_t>(taken);
        from.waiting_bytes -= static_cast<std::size_t>(taken);
        bytes.erase(0, static_cast<std::size_t>(taken));
        if (bytes.empty())
            from.waiting.pop_front();
    }
    if (from.closed && from.waiting.empty() && !std::exchange(from.close_told, true))
        ::shutdown(to.number(), SHUT_WR);
    return written;
}

} // namespace posthorn::test
