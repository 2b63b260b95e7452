// A child is watched through descriptors only: its pipes, its pidfd, and an eventfd for the stop.
// One poll waits for all of them, so that neither a child that writes before it reads nor one that
// never reads can hold us up.
#include "app/cli/child_process.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <spawn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace posthorn::cli {
namespace {

using clock = std::chrono::steady_clock;

// How much of a child's last words is kept; stores keep no more.
constexpr std::size_t last_output_bytes_max = 2'000;

// Several children share a screen: what they say is passed on in whole lines, up to this long.
constexpr std::size_t line_bytes_max = 8'192;

// A child that was asked to end is looked at this often: there may be more hurry by then.
constexpr int look_ms = 20;

class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int number) : number_(number) {}
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~descriptor() { close(); }

    void close()
    {
        if (number_ >= 0)
            ::close(std::exchange(number_, -1));
    }
    [[nodiscard]] bool is_open() const { return number_ >= 0; }
    [[nodiscard]] int get() const { return number_; }

private:
    int number_ = -1;
};

struct pipe_ends {
    descriptor read;
    descriptor write;
};

// Returns: false with errno set when there are no descriptors left.
bool make_pipe(pipe_ends& into)
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return false;
    into = {.read = descriptor(ends[0]), .write = descriptor(ends[1])};
    return true;
}

void never_block(const descriptor& which)
{
    ::fcntl(which.get(), F_SETFL, ::fcntl(which.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers_to(const std::vector<std::string>& words)
{
    std::vector<char*> result;
    result.reserve(words.size() + 1);
    for (const auto& each : words)
        result.push_back(const_cast<char*>(each.c_str())); // NOLINT: as POSIX declares it
    result.push_back(nullptr);
    return result;
}

// A child starts with the signals as a shell would give them, in a group of its own, and with three
// descriptors. Returns: an errno, or 0.
int spawn(const child_request& request, const descriptor& input, const descriptor& results,
          const descriptor& errors, pid_t& child)
{
    posix_spawn_file_actions_t files{};
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input.get(), STDIN_FILENO);
    if (results.is_open())
        posix_spawn_file_actions_adddup2(&files, results.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, errors.get(), STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);

    posix_spawnattr_t how{};
    posix_spawnattr_init(&how);
    sigset_t none;
    sigemptyset(&none);
    sigset_t usual;
    sigemptyset(&usual);
    for (const int each : {SIGPIPE, SIGINT, SIGQUIT, SIGTERM})
        sigaddset(&usual, each);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                       POSIX_SPAWN_SETPGROUP);

    const auto words = pointers_to(request.what.words);
    const auto environment = pointers_to(request.environment);
    const int problem = posix_spawn(&child, request.what.path.c_str(), &files, &how, words.data(),
                                    environment.data());
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return problem;
}

// The C library's header for it is not fit for C++ everywhere.
descriptor process_descriptor(pid_t id)
{
    return descriptor(static_cast<int>(::syscall(SYS_pidfd_open, id, 0U)));
}

// The end of what a child said.
class last_words {
public:
    void add(std::string_view text)
    {
        text_ += text;
        if (text_.size() > last_output_bytes_max)
            text_.erase(0, text_.size() - last_output_bytes_max);
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

private:
    std::string text_;
};

// Output in whole lines, without secrets. A line that is too long is passed on in parts, which end
// so far before what was read last that no secret can reach across.
class whole_lines {
public:
    whole_lines(const std::function<void(std::string_view)>& to, const output_filter& filter,
                last_words* kept = nullptr)
        : to_(to), filter_(filter), kept_(kept)
    {}

    void add(std::string_view text)
    {
        begun_ += text;
        const auto last = begun_.rfind('\n');
        if (last != std::string::npos)
            pass(last + 1);
        if (begun_.size() > line_bytes_max + filter_.secret_bytes_max) {
            clean(begun_);
            pass(begun_.size() - std::min(begun_.size(), filter_.secret_bytes_max));
        }
    }
    // Whatever is said next is not the rest of this line.
    void end()
    {
        if (!begun_.empty())
            begun_ += '\n';
        pass(begun_.size());
    }

private:
    void clean(std::string& text) const
    {
        if (filter_.cleaned)
            text = filter_.cleaned(std::move(text));
    }
    void pass(std::size_t bytes)
    {
        auto text = begun_.substr(0, bytes);
        begun_.erase(0, bytes);
        clean(text);
        if (to_ && !text.empty())
            to_(text);
        if (kept_ != nullptr)
            kept_->add(text);
    }

    const std::function<void(std::string_view)>& to_;
    const output_filter& filter_;
    last_words* kept_;
    std::string begun_; ///< a line without its end
};

class running_child {
public:
    running_child(const child_request& request, pid_t id, descriptor input, descriptor results,
                  descriptor errors)
        : request_(request),
          id_(id),
          input_(std::move(input)),
          results_(std::move(results)),
          errors_(std::move(errors)),
          process_(process_descriptor(id)),
          wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        never_block(input_);
        never_block(errors_);
        if (results_.is_open())
            never_block(results_);
        if (request_.input.empty())
            input_.close();
    }

    child_end wait()
    {
        const std::stop_callback on_stop(request_.stop, [this] {
            (void)::eventfd_write(wake_.get(), 1); // full: it is awake already
        });
        while (!is_over())
            step();
        if (stopping_)
            ::kill(-id_, SIGKILL); // whatever it left behind; the group lives until we wait
        listen_to_errors();        // what it said last
        listen_to_results();
        error_lines_.end();
        result_lines_.end();
        return end();
    }

private:
    // A child that ends by itself may leave others behind, as daemons do. One that we ended may
    // not: its group has until the end of the patience, and is known to be gone when nobody holds
    // the pipe any more.
    [[nodiscard]] bool is_over() const
    {
        return ended_ && (!stopping_ || killed_ || !errors_.is_open());
    }

    void step()
    {
        // Closed descriptors are -1, which poll passes over.
        std::array<pollfd, 5> watched{
            pollfd{.fd = input_.get(), .events = POLLOUT, .revents = 0},
            pollfd{.fd = errors_.get(), .events = POLLIN, .revents = 0},
            pollfd{.fd = results_.get(), .events = POLLIN, .revents = 0},
            pollfd{.fd = ended_ ? -1 : process_.get(), .events = POLLIN, .revents = 0},
            pollfd{.fd = stopping_ ? -1 : wake_.get(), .events = POLLIN, .revents = 0}};
        const bool blind = !process_.is_open() || !wake_.is_open(); // no descriptors were left
        if (::poll(watched.data(), watched.size(), stopping_ || blind ? look_ms : -1) < 0)
            return;
        if (watched[0].revents != 0)
            feed();
        if (watched[1].revents != 0)
            listen_to_errors();
        if (watched[2].revents != 0)
            listen_to_results();
        look_at_process();
        if (!stopping_ && request_.stop.stop_requested())
            ask_to_end();
        if (stopping_ && !killed_ && clock::now() >= asked_at_ + request_.patience()) {
            ::kill(-id_, SIGKILL);
            killed_ = true;
        }
    }

    void look_at_process()
    {
        siginfo_t info{};
        ended_ = ended_ || (::waitid(P_PID, static_cast<id_t>(id_), &info,
                                     WEXITED | WNOHANG | WNOWAIT) == 0 &&
                            info.si_pid == id_);
    }

    void ask_to_end()
    {
        stopping_ = true;
        asked_at_ = clock::now();
        input_.close();
        ::kill(-id_, SIGTERM);
    }

    void feed()
    {
        const auto left = request_.input.substr(fed_);
        const auto length = ::write(input_.get(), left.data(), left.size());
        if (length > 0)
            fed_ += static_cast<std::size_t>(length);
        const bool unwanted = length < 0 && errno != EAGAIN && errno != EINTR;
        if (unwanted || fed_ == request_.input.size())
            input_.close();
    }

    void listen_to_errors() { error_lines_.add(listen(errors_)); }

    void listen_to_results() { result_lines_.add(listen(results_)); }

    // As much as a pipe holds.
    static std::string listen(descriptor& from)
    {
        if (!from.is_open())
            return {};
        std::string text(65'536, '\0');
        const auto length = ::read(from.get(), text.data(), text.size());
        if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
            from.close();
        text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
        return text;
    }

    child_end end()
    {
        int status = 0;
        while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {}
        child_end result{.exit_code = {}, .stopped = stopping_, .last_output = said_.take()};
        if (WIFEXITED(status))
            result.exit_code = WEXITSTATUS(status);
        else
            result.signal = WTERMSIG(status);
        return result;
    }

    const child_request& request_;
    pid_t id_;
    descriptor input_;
    descriptor results_;
    descriptor errors_;
    descriptor process_;
    descriptor wake_;
    std::size_t fed_ = 0;
    last_words said_;
    whole_lines error_lines_{request_.on_error_output, request_.filter, &said_};
    whole_lines result_lines_{request_.on_output, request_.filter};
    bool ended_ = false;
    bool stopping_ = false;
    bool killed_ = false;
    clock::time_point asked_at_{};
};

bool can_run(const std::string& path)
{
    // A folder can be "executed", too; opening it as a path tells them apart.
    return ::access(path.c_str(), X_OK) == 0 && ::access((path + "/.").c_str(), F_OK) != 0;
}

} // namespace

command find_command(std::vector<std::string> words)
{
    const auto name = words.empty() ? std::string{} : words.front();
    if (name.empty())
        throw error(error_code::invalid_argument,
                    "the command is missing: --on PATTERN -- COMMAND");
    const auto refuse = [&](const char* why) {
        throw error(error_code::invalid_argument, fmt::format("cannot run '{}': {}", name, why));
    };
    if (name.find('/') != std::string::npos) {
        if (!can_run(name))
            refuse(::access(name.c_str(), F_OK) == 0 ? "it is not a program"
                                                     : "there is no such file");
        return {.path = name, .words = std::move(words)};
    }
    const char* folders = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    std::string_view rest = folders == nullptr ? "/usr/bin:/bin" : folders;
    for (;;) {
        const auto folder = rest.substr(0, rest.find(':'));
        const auto path = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
        if (can_run(path))
            return {.path = path, .words = std::move(words)};
        if (folder.size() == rest.size())
            break;
        rest.remove_prefix(folder.size() + 1);
    }
    refuse("there is no such program in PATH");
    return {};
}

child_end run_child(const child_request& request)
{
    pipe_ends input;
    pipe_ends results;
    pipe_ends errors;
    pid_t child = 0;
    const bool piped =
        make_pipe(input) && make_pipe(errors) && (!request.on_output || make_pipe(results));
    const int problem =
        piped ? spawn(request, input.read, results.write, errors.write, child) : errno;
    if (problem != 0)
        return {.start_error = problem, .exit_code = {}, .last_output = {}};
    input.read.close();
    results.write.close();
    errors.write.close();
    return running_child(request, child, std::move(input.write), std::move(results.read),
                         std::move(errors.read))
        .wait();
}

} // namespace posthorn::cli
