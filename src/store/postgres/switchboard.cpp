// Listening for many on one socket.
#include "store/postgres/switchboard.hpp"

#include "store/postgres/offers.hpp"
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
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace posthorn::postgres {
namespace {

using namespace std::chrono_literals;

constexpr duration note_pause_first = 2ms;
constexpr duration note_pause_cap = 250ms;

// Bells that others hold are tried for this often; and while nobody listens, all are rung.
constexpr auto board_routine = 1s;
constexpr auto board_routine_when_lost = 5s;

// So long the server has to answer when nobody listens any more.
constexpr auto patience_at_end = 1s;

// Schemas that are armed with one statement.
constexpr std::size_t arm_at_once = 200;

constexpr std::string_view channel_suffix = "bell";

std::string prefix_of(std::string_view channel)
{
    return std::string(channel.substr(0, channel.size() - channel_suffix.size()));
}

} // namespace

class switchboard::subscriber final : public contract::subscription {
public:
    subscriber(std::shared_ptr<switchboard> of, std::string channel, std::uint64_t who)
        : of_(std::move(of)), channel_(std::move(channel)), who_(who)
    {}
    subscriber(const subscriber&) = delete;
    subscriber& operator=(const subscriber&) = delete;
    ~subscriber() override { of_->remove(channel_, who_); }

    void rest(bool asleep) override { of_->sleeps(channel_, who_, asleep); }
    void ring_others() override { of_->tell_others(channel_, who_); }

private:
    std::shared_ptr<switchboard> of_; ///< shared by all schemas of the database
    std::string channel_;
    std::uint64_t who_;
};

switchboard::switchboard(location where, environment world)
    : where_(std::move(where)),
      world_(std::move(world)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (waker_ < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
    thread_ = std::jthread([this] { run(); });
}

switchboard::~switchboard()
{
    {
        std::unique_lock lock(mutex_);
        over_ = true;
        wake();
        // It may wait for a server that does not answer, perhaps for ever.
        if (!has_ended_.wait_for(lock, patience_at_end, [&] { return ended_; }) && socket_ >= 0)
            shutdown(socket_, SHUT_RDWR);
    }
    thread_.join();
    close(waker_);
}

// -------------------------------------------------------------------------------- subscribers

std::unique_ptr<contract::subscription> switchboard::add(const std::string& schema,
                                                         std::function<void()> ring)
{
    auto channel = fmt::format("{}.{}", schema, channel_suffix);
    std::uint64_t who = 0;
    {
        const std::lock_guard lock(mutex_);
        who = next_++;
        auto& line = lines_[channel];
        line.rings.emplace(who, std::move(ring));
        line.asleep.insert(who);
        changed_.insert(channel);
    }
    wake();
    return std::make_unique<subscriber>(shared_from_this(), std::move(channel), who);
}

void switchboard::remove(const std::string& channel, std::uint64_t who)
{
    {
        const std::lock_guard lock(mutex_);
        auto& line = lines_[channel];
        line.rings.erase(who);
        line.asleep.erase(who);
        changed_.insert(channel);
    }
    wake();
}

void switchboard::sleeps(const std::string& channel, std::uint64_t who, bool asleep)
{
    {
        const std::lock_guard lock(mutex_);
        auto& line = lines_[channel];
        const bool before = !line.asleep.empty();
        if (asleep)
            line.asleep.insert(who);
        else
            line.asleep.erase(who);
        if (before == !line.asleep.empty())
            return;
        changed_.insert(channel);
    }
    wake();
}

// Those of this process are told at once, the others by the server.
void switchboard::tell_others(const std::string& channel, std::uint64_t who)
{
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = lines_.find(channel); found != lines_.end())
            for (const auto& [each, call] : found->second.rings)
                if (each != who)
                    call();
        to_ring_.insert(channel);
    }
    wake();
}

void switchboard::wake() noexcept
{
    const std::uint64_t one = 1;
    while (write(waker_, &one, sizeof one) < 0 && errno == EINTR) {}
}

void switchboard::ring(const std::string& channel)
{
    const std::lock_guard lock(mutex_);
    if (const auto found = lines_.find(channel); found != lines_.end())
        for (const auto& [who, call] : found->second.rings)
            call();
}

void switchboard::ring_all()
{
    const std::lock_guard lock(mutex_);
    for (const auto& [channel, line] : lines_)
        for (const auto& [who, call] : line.rings)
            call();
}

// --------------------------------------------------------------------------------- the thread

void switchboard::run()
{
    work();
    const std::lock_guard lock(mutex_);
    socket_ = -1;
    ended_ = true;
    has_ended_.notify_all();
}

void switchboard::connect()
{
    db_ = std::make_unique<connection>(where_, connection::serving::many_schemas);
    connecting_.succeeded();
    lost_ = false;
    const std::lock_guard lock(mutex_);
    socket_ = PQsocket(db_->handle());
    for (auto& [channel, line] : lines_) {
        line.listening = line.has_bell = false;
        changed_.insert(channel);
    }
}

void switchboard::work()
{
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (over_)
                return;
        }
        try {
            if (!db_ && connecting_.is_time())
                connect();
            if (db_) {
                serve_lines();
                ring_elsewhere();
                hear();
                check_notes();
                if (clock::now() >= routine_)
                    take_bells_again();
            } else if (clock::now() >= routine_) {
                routine_ = clock::now() + board_routine_when_lost;
                ring_all();
            }
        } catch (const std::exception& failure) {
            lose(failure.what());
        }
        rest(next_step());
    }
}

void switchboard::serve_lines()
{
    std::vector<std::string> to_arm;
    std::vector<std::string> to_leave;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& channel : changed_) {
            const auto found = lines_.find(channel);
            if (found == lines_.end()) // its last subscriber left while we let it go
                continue;
            const bool wanted = !found->second.asleep.empty();
            if (wanted && !found->second.listening)
                to_arm.push_back(channel);
            else if (!wanted && found->second.listening)
                to_leave.push_back(channel);
            else if (found->second.rings.empty() && !found->second.listening)
                lines_.erase(found);
        }
        changed_.clear();
    }
    for (const auto& channel : to_leave)
        let_go(channel);
    for (std::size_t from = 0; from < to_arm.size(); from += arm_at_once)
        arm({to_arm.begin() + static_cast<std::ptrdiff_t>(from),
             to_arm.begin() +
                 static_cast<std::ptrdiff_t>(std::min(from + arm_at_once, to_arm.size()))});
}

// What we notify we hear ourselves, and pass over. A ring that fails with the connection is not
// repeated: whoever listens looks again when it has lost its own.
void switchboard::ring_elsewhere()
{
    std::set<std::string, std::less<>> channels;
    {
        const std::lock_guard lock(mutex_);
        channels.swap(to_ring_);
    }
    for (const auto& channel : channels) {
        db_->serve(prefix_of(channel));
        db_->run(sql::ring_others::text);
    }
}

// First listen, then take the bells, then draw an id, then let everybody look.
void switchboard::arm(const std::vector<std::string>& channels)
{
    for (const auto& channel : channels) {
        db_->serve(prefix_of(channel));
        db_->run(sql::listen::text); // on its own: it counts once it is committed
    }
    arguments with;
    const std::vector<std::string_view> names(channels.begin(), channels.end());
    with.set(sql::take_bells::names, std::span<const std::string_view>(names));
    const auto taken = db_->run(sql::take_bells::text, with);
    {
        const std::lock_guard lock(mutex_);
        for (int row = 0; row < taken.size(); ++row) {
            const auto found = lines_.find(taken.text(row, 0));
            if (found == lines_.end())
                continue;
            found->second.listening = true;
            found->second.has_bell = taken.yes(row, 2);
        }
    }
    draw_notes(channels);
    for (const auto& channel : channels)
        ring(channel);
}

// While nobody held them, nobody rang.
void switchboard::take_bells_again()
{
    routine_ = clock::now() + board_routine;
    std::vector<std::string> missing;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [channel, line] : lines_)
            if (line.listening && !line.has_bell)
                missing.push_back(channel);
    }
    if (missing.empty())
        return;
    arguments with;
    const std::vector<std::string_view> names(missing.begin(), missing.end());
    with.set(sql::take_bells_again::names, std::span<const std::string_view>(names));
    const auto taken = db_->run(sql::take_bells_again::text, with);
    std::vector<std::string> got;
    {
        const std::lock_guard lock(mutex_);
        for (int row = 0; row < taken.size(); ++row) {
            const auto found = lines_.find(taken.text(row, 0));
            if (found == lines_.end() || !taken.yes(row, 1))
                continue;
            found->second.has_bell = true;
            got.push_back(found->first);
        }
    }
    if (got.empty())
        return;
    draw_notes(got);
    for (const auto& channel : got)
        ring(channel);
}

void switchboard::draw_notes(const std::vector<std::string>& channels)
{
    own_id_ = db_->run(sql::own_id::text).integer(0, 0);
    auto ids = running(own_id_);
    if (!ids.empty())
        notes_.push_back({.running = std::move(ids),
                          .channels = channels,
                          .check_at = clock::now() + note_pause_first,
                          .pause = note_pause_first});
}

void switchboard::check_notes()
{
    const auto now = clock::now();
    if (std::ranges::none_of(notes_, [&](const note& each) { return each.check_at <= now; }))
        return;
    const auto still = running(own_id_);
    for (auto& each : notes_) {
        std::vector<std::int64_t> left;
        std::ranges::set_intersection(each.running, still, std::back_inserter(left));
        if (left.size() < each.running.size())
            for (const auto& channel : each.channels)
                ring(channel);
        each.running = std::move(left);
        each.pause = std::min(each.pause * 2, note_pause_cap);
        each.check_at = now + each.pause;
    }
    std::erase_if(notes_, [](const note& each) { return each.running.empty(); });
}

/// In order.
std::vector<std::int64_t> switchboard::running(std::int64_t before)
{
    arguments with;
    with.set(sql::running::before, before);
    const auto found = db_->run(sql::running::text, with);
    std::vector<std::int64_t> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(found.integer(row, 0));
    std::ranges::sort(result);
    return result;
}

void switchboard::let_go(const std::string& channel)
{
    bool had_bell = false;
    {
        const std::lock_guard lock(mutex_);
        auto& line = lines_[channel];
        had_bell = std::exchange(line.has_bell, false);
        line.listening = false;
    }
    db_->serve(prefix_of(channel));
    if (had_bell)
        db_->run(sql::leave_bell::text);
    db_->run(sql::leave_bedroom::text);
    if (had_bell)
        db_->run(sql::pass_bell_on::text);
    db_->run(sql::stop_listening::text);
    const std::lock_guard lock(mutex_);
    const auto found = lines_.find(channel);
    if (found != lines_.end() && found->second.rings.empty())
        lines_.erase(found);
}

void switchboard::hear()
{
    if (PQconsumeInput(db_->handle()) == 0)
        throw error(error_code::connection_lost, "the connection has ended");
    using notification = std::unique_ptr<PGnotify, void (*)(void*)>;
    std::set<std::string> rung;
    bool offered = false;
    while (const auto next = notification(PQnotifies(db_->handle()), &PQfreemem)) {
        if (next->be_pid == PQbackendPID(db_->handle()))
            continue; // what we told others
        if (next->extra[0] == '\0')
            rung.insert(next->relname);
        else if (!offers::is_about_one(next->extra))
            offered = true; // somebody else lets go of a bell
    }
    for (const auto& channel : rung)
        ring(channel);
    if (offered)
        take_bells_again();
}

switchboard::time switchboard::next_step() const
{
    if (!db_)
        return std::min(connecting_.next(), routine_);
    auto next = routine_;
    for (const auto& each : notes_)
        next = std::min(next, each.check_at);
    return next;
}

void switchboard::rest(time until)
{
    std::array<pollfd, 2> sources{
        pollfd{.fd = waker_, .events = POLLIN, .revents = 0},
        pollfd{.fd = db_ ? PQsocket(db_->handle()) : -1, .events = POLLIN, .revents = 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
    const auto wait = std::clamp<std::int64_t>(left.count(), 0, 60'000);
    if (poll(sources.data(), sources.size(), static_cast<int>(wait)) > 0 &&
        sources[0].revents != 0) {
        std::uint64_t count = 0;
        (void)!read(waker_, &count, sizeof count);
    }
}

void switchboard::lose(const char* why)
{
    {
        const std::lock_guard lock(mutex_);
        socket_ = -1;
    }
    db_.reset();
    notes_.clear();
    connecting_.failed(world_);
    if (!std::exchange(lost_, true) && world_.log)
        world_.log(log_level::warning,
                   fmt::format("nobody listens for the schemas of a database, which are looked at "
                               "from time to time: {}",
                               why));
}

} // namespace posthorn::postgres
