// posix_spawn and waitpid.
#include "torture/process.hpp"

#include <posthorn/environment.hpp>

#include <spawn.h>

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace posthorn::torture {

using namespace std::chrono_literals;

process::process(std::vector<std::string> arguments, const std::filesystem::path& log)
{
    std::vector<char*> raw;
    for (auto& each : arguments)
        raw.push_back(each.data());
    raw.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    // A SIGTERM that comes before the program listens waits until it does.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int code = posix_spawn(&pid_, raw.front(), &files, &attributes, raw.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (code != 0)
        throw std::system_error(code, std::generic_category(), arguments.front());
}

process::process(process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), status_(other.status_)
{}

process::~process()
{
    if (pid_ == 0 || ended())
        return;
    send(SIGKILL);
    (void)wait(60s);
}

void process::stop_and_wait() const
{
    send(SIGSTOP);
    siginfo_t seen{};
    waitid(P_PID, static_cast<id_t>(pid_), &seen, WSTOPPED | WEXITED | WNOWAIT);
}

std::optional<int> process::ended()
{
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return status_;
}

std::optional<int> process::wait(duration at_most)
{
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (!ended() && std::chrono::steady_clock::now() < end)
        environment::system().clock->pause(1ms);
    return ended();
}

} // namespace posthorn::torture
