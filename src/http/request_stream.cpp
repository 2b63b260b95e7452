// The head is complete before the library sees any of it, so that what is wrong with its size or
// its pace is known, and can be said.
#include "http/request_stream.hpp"

#include "http/request_head.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::http {
namespace {

constexpr std::size_t piece_bytes = 4'096;

thread_local const request_stream* answered_here = nullptr;

} // namespace

std::size_t with_chunk_lines(std::size_t body_bytes_max)
{
    return body_bytes_max + body_bytes_max / 8 + (std::size_t{64} << 10U);
}

request_stream::request_stream(connection& with, std::size_t body_bytes_max)
    : with_(with), body_bytes_max_(with_chunk_lines(body_bytes_max))
{
    answered_here = this;
}

request_stream::~request_stream()
{
    answered_here = nullptr;
}

shortfall request_stream::of_this_thread() noexcept
{
    if (answered_here == nullptr)
        return shortfall::none;
    return answered_here->too_much_ ? shortfall::too_much : answered_here->with_.why();
}

bool request_stream::receive_more()
{
    const auto before = received_.size();
    received_.resize(before + piece_bytes);
    const auto got = with_.receive(received_.data() + before, piece_bytes);
    received_.resize(before + got);
    return got > 0;
}

request_stream::head request_stream::receive_head()
{
    head_search search;
    auto found = head_search::answer::unfinished;
    while (found == head_search::answer::unfinished && receive_more())
        found = search.look_at(received_);
    if (found == head_search::answer::too_large)
        return head::too_large;
    if (found == head_search::answer::unfinished)
        return received_.empty() || with_.why() != shortfall::too_slow ? head::absent
                                                                       : head::too_slow;
    const auto given = std::string_view(received_).substr(0, search.size());
    if (!frames_body_clearly(given))
        return head::malformed;
    body_announced_ = announced_body(given);
    body_received_ = received_.size() - given.size();
    received_.replace(0, given.size(), for_the_library(given));
    return head::complete;
}

bool request_stream::is_unread() const noexcept
{
    return !body_announced_ || body_received_ < *body_announced_;
}

ssize_t request_stream::read(char* into, std::size_t bytes_max)
{
    if (taken_ == received_.size()) {
        received_.clear();
        taken_ = 0;
        too_much_ = std::max(body_received_, body_announced_.value_or(0)) > body_bytes_max_;
        if (too_much_)
            return -1;
        if (!receive_more()) // of a body without a length this is the end
            return with_.why() == shortfall::ended ? 0 : -1;
        body_received_ += received_.size();
    }
    const auto count = std::min(bytes_max, received_.size() - taken_);
    std::copy_n(received_.data() + taken_, count, into);
    taken_ += count;
    return static_cast<ssize_t>(count);
}

ssize_t request_stream::write(const char* bytes, std::size_t count)
{
    return with_.send({bytes, count}) ? static_cast<ssize_t>(count) : -1;
}

// Nobody asks who it was: behind a proxy it is always the same.
void request_stream::get_remote_ip_and_port(std::string& ip, int& port) const
{
    ip.clear();
    port = 0;
}

void request_stream::get_local_ip_and_port(std::string& ip, int& port) const
{
    ip.clear();
    port = 0;
}

// The library wants to know whether `select` could wait for it, and refuses the request if not. It
// never waits for this one, whose number may be a large one.
socket_t request_stream::socket() const
{
    return 0;
}

} // namespace posthorn::http
