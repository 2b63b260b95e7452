// Sleeping on a socket. Whatever goes wrong with the connection turns the bell into a clock, until
// the next arming finds the server again.
#include "store/postgres/listening_bell.hpp"

#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <iterator>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace posthorn::postgres {
namespace {

using namespace std::chrono_literals;

// Those who ran when we took the bell mostly end within milliseconds; a few take hours.
constexpr auto running_pause_first = 2ms;
constexpr auto running_pause_cap = 250ms;

// Whoever sleeps without the bell tries to take it: its holder may have gone without a word. Who
// holds it only makes sure that the server is still there.
constexpr auto routine_without_bell = 1s;
constexpr auto routine_with_bell = 10s;

// The bedroom is closed for as long as somebody looks whether it is empty: a moment.
constexpr int entries_max = 5;

const arguments nothing;

using notification = std::unique_ptr<PGnotify, void (*)(void*)>;

notification next_notification(const connection& db)
{
    return {PQnotifies(db.handle()), &PQfreemem};
}

} // namespace

listening_bell::listening_bell(location where, environment world, frontier& front)
    : where_(std::move(where)),
      world_(std::move(world)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      offers_(world_, front)
{
    if (waker_ < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
}

listening_bell::~listening_bell()
{
    disarm();
    close(waker_);
}

void listening_bell::arm()
{
    wanted_ = true;
    attempt([&] {
        if (!armed_)
            subscribe();
        else if (!has_bell_)
            (void)look_after_itself();
        else if (PQconsumeInput(db_->handle()) == 0)
            throw error(error_code::connection_lost, "the connection has ended");
        // What has rung until now, the caller's look will see.
        if (armed_)
            (void)read_notes();
    });
}

// False: not yet; so long it is a clock.
bool listening_bell::connect()
{
    if (!db_ && connecting_.is_time())
        db_ = connect_patiently(where_);
    return db_ != nullptr;
}

void listening_bell::subscribe()
{
    if (!connect())
        return;
    db_->run(sql::listen::text); // on its own: it counts once it is committed
    armed_ = true;
    for (int entry = 1; entry <= entries_max && !in_bedroom_; ++entry)
        in_bedroom_ = db_->run(sql::enter_bedroom::text).yes(0, 0);
    (void)take_bell();
    connecting_.succeeded();
    if (std::exchange(lost_, false))
        say(log_level::info, "the bell has its connection back");
}

void listening_bell::disarm() noexcept
{
    wanted_ = false;
    if (!armed_)
        return;
    attempt([&] {
        offers_.withdraw(*db_); // first, so that nothing is handed over unheard
        std::vector<step> steps;
        if (has_bell_)
            steps.push_back({sql::leave_bell::text, nothing});
        if (in_bedroom_)
            steps.push_back({sql::leave_bedroom::text, nothing});
        if (has_bell_)
            steps.push_back({sql::pass_bell_on::text, nothing});
        steps.push_back({sql::stop_listening::text, nothing});
        armed_ = has_bell_ = in_bedroom_ = false;
        running_.clear();
        db_->run_all(steps);
    });
}

bool listening_bell::wait(duration at_most) noexcept
{
    const auto end = clock::now() + std::clamp<duration>(at_most, 0s, 24h);
    bool rung = false;
    while (!rung) {
        if (armed_) {
            attempt([&] { rung = has_rung(); });
        } else if (wanted_ && connecting_.is_time()) {
            attempt([&] { subscribe(); });
            return true; // whatever rang meanwhile, nobody heard it
        }
        if (rung || offers_.were_told())
            break;
        switch (rest(std::min(end, next_step()))) {
        case event::woken: return true;
        case event::input: break; // has_rung reads it
        case event::time:
            if (clock::now() >= end)
                return false;
            if (armed_)
                attempt([&] { rung = look_after_itself(); });
            break;
        }
    }
    return rung;
}

void listening_bell::wake() noexcept
{
    const std::uint64_t one = 1;
    while (write(waker_, &one, sizeof one) < 0 && errno == EINTR) {}
}

void listening_bell::ring_others() noexcept
{
    attempt([&] {
        if (db_)
            db_->run(sql::ring_others::text);
    });
}

void listening_bell::offer(const contract::place_offer& terms, std::size_t places) noexcept
{
    attempt([&] {
        if (armed_)
            offers_.make(*db_, terms, places);
    });
}

void listening_bell::withdraw() noexcept
{
    attempt([&] {
        if (armed_)
            offers_.withdraw(*db_);
    });
}

std::vector<contract::handed_batch> listening_bell::handed_over(
    const std::function<std::vector<fence>()>& held) noexcept
{
    std::vector<contract::handed_batch> result;
    if (offers_.were_told() || offers_.must_ask())
        attempt([&] {
            if (connect())
                result = offers_.take(*db_, held());
        });
    return result;
}

/// Reads what has come. True: the caller should look.
bool listening_bell::has_rung()
{
    if (PQconsumeInput(db_->handle()) == 0)
        throw error(error_code::connection_lost, "the connection has ended");
    const auto said = read_notes();
    return (said.bell_is_free && !has_bell_ && look_after_itself()) || said.rung;
}

listening_bell::notes listening_bell::read_notes()
{
    const auto session = PQbackendPID(db_->handle());
    notes result;
    while (const auto next = next_notification(*db_)) {
        if (next->be_pid == session || offers_.hear(next->extra, session))
            continue; // what we told others, or what is about an offer
        (next->extra[0] == '\0' ? result.rung : result.bell_is_free) = true;
    }
    return result;
}

/// What a sleeper does between rings. True: the caller should look.
bool listening_bell::look_after_itself()
{
    if (has_bell_)
        return some_have_ended();
    return take_bell(); // and while nobody held it, nobody rang
}

bool listening_bell::take_bell()
{
    const auto drawn = db_->run(sql::take_bell::text);
    routine_check_ = clock::now() + routine_without_bell;
    if (drawn.is_null(0, 0))
        return false;
    has_bell_ = true;
    own_id_ = drawn.integer(0, 0);
    running_ = running();
    running_pause_ = running_pause_first;
    running_check_ = clock::now() + running_pause_;
    routine_check_ = clock::now() + routine_with_bell;
    return true;
}

bool listening_bell::some_have_ended()
{
    const auto before = running_.size();
    std::vector<std::int64_t> left;
    std::ranges::set_intersection(running_, running(), std::back_inserter(left));
    running_ = std::move(left);
    running_pause_ = std::min<clock::duration>(running_pause_ * 2, running_pause_cap);
    running_check_ = clock::now() + running_pause_;
    routine_check_ = clock::now() + routine_with_bell;
    return running_.size() < before;
}

/// In order.
std::vector<std::int64_t> listening_bell::running()
{
    arguments with;
    with.set(sql::running::before, own_id_);
    const auto found = db_->run(sql::running::text, with);
    std::vector<std::int64_t> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(found.integer(row, 0));
    std::ranges::sort(result);
    return result;
}

listening_bell::clock::time_point listening_bell::next_step() const
{
    if (!wanted_)
        return clock::time_point::max();
    if (!armed_)
        return connecting_.next();
    return running_.empty() ? routine_check_ : std::min(routine_check_, running_check_);
}

listening_bell::event listening_bell::rest(clock::time_point until) const noexcept
{
    std::array<pollfd, 2> sources{
        pollfd{.fd = waker_, .events = POLLIN, .revents = 0},
        pollfd{.fd = armed_ ? PQsocket(db_->handle()) : -1, .events = POLLIN, .revents = 0}};
    const auto left = std::max<clock::duration>(until - clock::now(), 0s);
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec for_long{.tv_sec = whole.count(),
                            .tv_nsec = std::chrono::nanoseconds(left - whole).count()};
    if (ppoll(sources.data(), sources.size(), &for_long, nullptr) <= 0)
        return event::time;
    if (sources[0].revents == 0)
        return event::input;
    std::uint64_t count = 0;
    (void)!read(waker_, &count, sizeof count);
    return event::woken;
}

void listening_bell::attempt(const std::function<void()>& work) noexcept
{
    try {
        work();
    } catch (const std::exception& failure) {
        lose(failure.what());
    }
}

void listening_bell::lose(const char* why) noexcept
{
    db_.reset();
    armed_ = has_bell_ = in_bedroom_ = false;
    running_.clear();
    offers_.lose();
    connecting_.failed(world_);
    if (!std::exchange(lost_, true))
        say(log_level::warning, "the bell has no connection, and looks from time to time: ", why);
}

void listening_bell::say(log_level level, std::string_view line, const char* why) const noexcept
{
    try {
        if (world_.log)
            world_.log(level, fmt::format("{}{}", line, why));
    } catch (...) {
        // A bell that cannot say so still works.
    }
}

} // namespace posthorn::postgres
