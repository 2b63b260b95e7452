// The real world behind the environment: the machine's clocks and the kernel's randomness.
// The only place in the library that asks for either.
#include "core/one_line.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <string>
#include <sys/random.h>
#include <thread>
#include <unistd.h>

namespace posthorn {
namespace {

class system_clock final : public clock {
public:
    timestamp now() const override
    {
        return std::chrono::time_point_cast<duration>(std::chrono::system_clock::now());
    }

    monotonic_time monotonic() const override
    {
        return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
    }

    monotonic_time since_boot() const override
    {
        timespec read{};
        clock_gettime(CLOCK_BOOTTIME, &read);
        return monotonic_time{std::chrono::duration_cast<duration>(
            std::chrono::seconds{read.tv_sec} + std::chrono::nanoseconds{read.tv_nsec})};
    }

    void pause(duration length) const override { std::this_thread::sleep_for(length); }
};

std::string_view name_of(log_level level)
{
    switch (level) {
    case log_level::debug: return "debug";
    case log_level::info: return "info";
    case log_level::warning: return "warning";
    case log_level::error: return "error";
    }
    return "unknown";
}

// One write for each line, so that lines of several threads and processes do not mix.
void write_to_stderr(log_level level, std::string_view line)
{
    std::string text("posthorn: ");
    text += name_of(level);
    text += ": ";
    text += core::on_one_line(line);
    text += '\n';
    (void)!::write(STDERR_FILENO, text.data(), text.size()); // there is no other place to complain
}

// Counts forks, so that a child never hands out the bytes its parent has buffered.
std::atomic<unsigned> fork_count{0};

void count_forks_from_now_on()
{
    static const int registered = pthread_atfork(
        nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
    (void)registered;
}

void ask_kernel(std::span<std::uint8_t> bytes)
{
    while (!bytes.empty()) {
        const auto got = getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0 && errno != EINTR)
            throw error(error_code::internal,
                        std::string("the kernel gives no random bytes: ") + std::strerror(errno));
        if (got > 0)
            bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

// One system call serves many small requests: an id needs eight bytes, the buffer holds 512.
class system_random final : public random_source {
public:
    system_random() { count_forks_from_now_on(); }

    void fill(std::span<std::uint8_t> bytes) override
    {
        thread_local buffer own;
        const auto forks = fork_count.load(std::memory_order_relaxed);
        if (own.forks != forks)
            own = buffer{.forks = forks};
        while (!bytes.empty()) {
            if (own.used == own.bytes.size()) {
                ask_kernel(own.bytes);
                own.used = 0;
            }
            const auto count = std::min(bytes.size(), own.bytes.size() - own.used);
            std::memcpy(bytes.data(), own.bytes.data() + own.used, count);
            own.used += count;
            bytes = bytes.subspan(count);
        }
    }

private:
    struct buffer {
        std::array<std::uint8_t, 512> bytes{};
        std::size_t used = 512;
        unsigned forks = 0;
    };
};

} // namespace

std::uint64_t random_source::bits()
{
    std::array<std::uint8_t, 8> bytes{};
    fill(bytes);
    return std::bit_cast<std::uint64_t>(bytes);
}

double random_source::fraction()
{
    // The upper 53 bits fill a double's mantissa exactly.
    return static_cast<double>(bits() >> 11U) * 0x1.0p-53;
}

environment environment::system(std::optional<log_level> log_from)
{
    return {.clock = std::make_shared<system_clock>(),
            .random = std::make_shared<system_random>(),
            .log = log_from ? log_sink(write_to_stderr, *log_from) : log_sink()};
}

} // namespace posthorn
