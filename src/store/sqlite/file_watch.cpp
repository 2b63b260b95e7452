// One thread that sleeps in the kernel. A directory is watched once, however many files it has.
#include "store/sqlite/file_watch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace posthorn::sqlite {
namespace {

// How often the logs are looked at: seldom where the kernel tells, else often.
constexpr std::chrono::milliseconds look_every_told{10'000};
constexpr std::chrono::milliseconds look_every_untold{500};

// After a write somebody looks at once, and again so long after: between the write and the commit
// the log is synchronised with the disk, however long that takes.
constexpr std::array<std::chrono::milliseconds, 5> echo_pauses{
    std::chrono::milliseconds{2}, std::chrono::milliseconds{10}, std::chrono::milliseconds{50},
    std::chrono::milliseconds{250}, std::chrono::milliseconds{1'500}};

// Links are followed as SQLite does, which puts the log beside the file itself.
std::filesystem::path resolved(const std::string& path)
{
    std::error_code none;
    auto real = std::filesystem::canonical(path, none);
    return none ? std::filesystem::absolute(path, none) : real;
}

} // namespace

class file_watch::one final : public contract::subscription {
public:
    one(std::shared_ptr<file_watch> of, key which) : of_(std::move(of)), which_(which) {}
    one(const one&) = delete;
    one& operator=(const one&) = delete;
    ~one() override { of_->remove(which_); }

    void rest(bool) override {} // a write is told to whoever listens: it costs the writer nothing

private:
    std::shared_ptr<file_watch> of_; ///< shared by all files that are watched
    key which_;
};

file_watch::file_watch()
    : events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (waker_ < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
    thread_ = std::jthread([this] { run(); });
}

file_watch::~file_watch()
{
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    const std::uint64_t signal = 1;
    (void)!write(waker_, &signal, sizeof signal);
    thread_.join();
    close(waker_);
    if (events_ >= 0)
        close(events_);
}

std::unique_ptr<contract::subscription> file_watch::add(const std::string& path,
                                                        std::function<void()> ring)
{
    const auto real = resolved(path);
    file added;
    added.folder = real.parent_path().string();
    added.name = real.filename().string();
    added.log = added.name + "-wal";
    added.ring = std::move(ring);
    added.last = written_at(added);
    const std::lock_guard lock(mutex_);
    watch_folder(added);
    const auto number = next_++;
    if (added.directory >= 0)
        by_name_[{added.directory, added.log}].push_back(number);
    else
        ++untold_;
    files_.emplace(number, std::move(added));
    return std::make_unique<one>(shared_from_this(), number);
}

void file_watch::remove(key which)
{
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(which);
    if (found == files_.end())
        return;
    const auto& old = found->second;
    if (old.directory < 0)
        --untold_;
    if (const auto named = by_name_.find({old.directory, old.log}); named != by_name_.end()) {
        std::erase(named->second, which);
        if (named->second.empty())
            by_name_.erase(named);
    }
    files_.erase(found);
}

// Watching a directory twice is one watch. None: it is gone, or there are too many of them.
void file_watch::watch_folder(file& which)
{
    which.directory =
        events_ < 0 ? -1 : inotify_add_watch(events_, which.folder.c_str(), IN_MODIFY | IN_ONLYDIR);
}

file_watch::written file_watch::written_at(const file& which)
{
    const auto look_at = [&](const std::string& name) -> last_write {
        struct stat found {};
        if (stat((which.folder + "/" + name).c_str(), &found) != 0 || found.st_size == 0)
            return {};
        return {.seconds = found.st_mtim.tv_sec,
                .nanoseconds = found.st_mtim.tv_nsec,
                .bytes = found.st_size};
    };
    return {.log = look_at(which.log), .store = look_at(which.name)};
}

void file_watch::run()
{
    for (;;) {
        const int pause = next_step_ms();
        if (pause < 0)
            return;
        std::array<pollfd, 2> sources{pollfd{.fd = waker_, .events = POLLIN, .revents = 0},
                                      pollfd{.fd = events_, .events = POLLIN, .revents = 0}};
        if (poll(sources.data(), sources.size(), pause) > 0) {
            std::uint64_t count = 0;
            if (sources[0].revents != 0)
                (void)!read(waker_, &count, sizeof count);
            if (sources[1].revents != 0)
                read_events();
        }
        ring_echoes();
        if (clock::now() >= look_at_)
            look_at_all();
    }
}

// How long to sleep; −1: it is over.
int file_watch::next_step_ms()
{
    const std::lock_guard lock(mutex_);
    if (over_)
        return -1;
    const auto now = clock::now();
    look_at_ = std::min(look_at_, now + (untold_ == 0 ? look_every_told : look_every_untold));
    auto next = look_at_;
    for (const auto& [number, each] : echoes_)
        next = std::min(next, each.at);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
}

void file_watch::ring(key which)
{
    files_.at(which).ring();
    echoes_[which] = {.at = clock::now() + echo_pauses.front(), .step = 0};
}

void file_watch::ring_echoes()
{
    const std::lock_guard lock(mutex_);
    const auto now = clock::now();
    for (auto at = echoes_.begin(); at != echoes_.end();) {
        auto& [number, each] = *at;
        if (each.at > now) {
            ++at;
            continue;
        }
        const auto found = files_.find(number);
        if (found != files_.end())
            found->second.ring();
        if (found == files_.end() || ++each.step == echo_pauses.size()) {
            at = echoes_.erase(at);
            continue;
        }
        each.at = now + echo_pauses[each.step];
        ++at;
    }
}

void file_watch::read_events()
{
    alignas(inotify_event) std::array<char, 64 * 1024> buffer;
    const auto bytes = read(events_, buffer.data(), buffer.size());
    std::vector<std::pair<int, std::string>> names;
    std::vector<int> removed;
    bool lost = false;
    for (ssize_t at = 0; at < bytes;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        lost = lost || (event->mask & IN_Q_OVERFLOW) != 0;
        if ((event->mask & IN_IGNORED) != 0)
            removed.push_back(event->wd);
        if (event->len > 0)
            names.emplace_back(event->wd, event->name);
    }
    std::ranges::sort(names);
    const auto same = std::ranges::unique(names);
    names.erase(same.begin(), same.end());
    const std::lock_guard lock(mutex_);
    for (const auto& each : names) {
        const auto found = by_name_.find(each);
        if (found == by_name_.end())
            continue;
        for (const auto number : found->second)
            ring(number);
    }
    for (const int gone : removed) // the directory: if it comes back, it must be watched anew
        for (auto& [number, each] : files_)
            if (each.directory == gone) {
                by_name_.erase({gone, each.log});
                each.directory = -1;
                ++untold_;
            }
    if (lost) // too many at once: nobody knows what was missed
        for (const auto& [number, each] : files_)
            ring(number);
}

void file_watch::look_at_all()
{
    const std::lock_guard lock(mutex_);
    look_at_ = clock::time_point::max();
    for (auto& [number, each] : files_) {
        const auto now = written_at(each);
        if (std::exchange(each.last, now) != now)
            ring(number);
        if (each.directory >= 0)
            continue;
        watch_folder(each);
        if (each.directory < 0)
            continue;
        by_name_[{each.directory, each.log}].push_back(number);
        --untold_;
    }
}

} // namespace posthorn::sqlite
