// The head says how the end of the body is found. Where there is no room for all, the network that
// takes most of it gives way first, so that one sender cannot crowd out the others.
#include "http/incoming_requests.hpp"

#include "http/request_stream.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace posthorn::http {
namespace {

constexpr std::string_view consent = "HTTP/1.1 100 Continue\r\n\r\n";

} // namespace

void incoming_requests::add(std::unique_ptr<connection> which, const listening_socket::peer& from)
{
    if (all_.size() >= of_.count_max)
        send_one_away();
    all_.push_back({.with = std::move(which), .from = from});
}

void incoming_requests::list_sockets(std::vector<pollfd>& to) const
{
    for (const auto& each : all_)
        to.push_back({.fd = each.with->socket(), .events = POLLIN, .revents = 0});
}

// All have the same time, so that of the oldest is over first.
std::optional<duration> incoming_requests::time_left() const
{
    if (all_.empty())
        return std::nullopt;
    return std::max(all_.front().with->receive_until() - machine_time(), duration::zero());
}

void incoming_requests::take_from(const pollfd* polled, arrivals& ready)
{
    const auto now = machine_time();
    for (auto each = all_.begin(); each != all_.end(); ++polled) {
        if (polled->revents != 0)
            take(*each);
        if (each->at != state::over && now < each->with->receive_until()) {
            ++each;
            continue;
        }
        ready.push_back({.with = std::move(each->with), .is_malformed = each->is_malformed});
        each = all_.erase(each);
    }
    while (bytes() > of_.bytes_max)
        all_.erase(oldest_of_greediest([](const request& of) { return of.with->ahead().size(); }));
}

void incoming_requests::give_up(arrivals& ready)
{
    for (auto& each : all_)
        if (each.at != state::awaiting_head)
            ready.push_back({.with = std::move(each.with), .is_malformed = each.is_malformed});
    all_.clear();
}

void incoming_requests::send_one_away()
{
    if (!all_.empty())
        all_.erase(oldest_of_greediest([](const request&) { return std::size_t{1}; }));
}

void incoming_requests::take(request& of) const
{
    // One more than is wanted shows that there is more.
    const auto bytes_max = head_bytes_max + with_chunk_lines(of_.body_bytes_max) + 1;
    const bool goes_on = of.with->take_ahead(bytes_max);
    if (of.at == state::awaiting_head)
        look_at_head(of);
    if (of.at == state::awaiting_body)
        look_at_body(of);
    if (!goes_on || of.with->ahead().size() >= bytes_max)
        of.at = state::over;
}

void incoming_requests::look_at_head(request& of) const
{
    const auto answer = of.head.look_at(of.with->ahead());
    if (answer == head_search::answer::unfinished)
        return;
    of.at = state::over;
    const auto head = of.with->ahead().substr(0, of.head.size());
    if (answer == head_search::answer::too_large || !frames_body_clearly(head) || !has_body(head))
        return;
    const auto announced = announced_body(head);
    if (announced && *announced > with_chunk_lines(of_.body_bytes_max))
        return;
    of.at = state::awaiting_body;
    of.body_bytes = announced.value_or(0);
    if (!announced)
        of.how = framing::chunked;
    else if (!announces_length(head))
        of.how = framing::until_closed;
    const bool all_here = of.with->ahead().size() > head.size();
    if (!all_here && awaits_consent(head) && !of.with->send(consent))
        of.at = state::over;
}

void incoming_requests::look_at_body(request& of) const
{
    const auto body = of.with->ahead().substr(of.head.size());
    bool complete = of.how == framing::counted && body.size() >= of.body_bytes;
    if (of.how == framing::chunked) {
        const auto answer = of.chunks.look_at(body);
        of.is_malformed = answer == chunk_search::answer::malformed;
        complete = answer != chunk_search::answer::unfinished;
    }
    if (complete)
        of.at = state::over;
}

std::size_t incoming_requests::bytes() const
{
    std::size_t result = 0;
    for (const auto& each : all_)
        result += each.with->ahead().size();
    return result;
}

template <typename Measure>
incoming_requests::place incoming_requests::oldest_of_greediest(Measure measure)
{
    std::map<listening_socket::peer, std::size_t> taken;
    for (const auto& each : all_)
        taken[each.from] += measure(each);
    const auto most = std::ranges::max_element(taken, {}, [](const auto& of) { return of.second; });
    return std::ranges::find_if(
        all_, [&](const request& each) { return each.from == most->first && measure(each) > 0; });
}

} // namespace posthorn::http
