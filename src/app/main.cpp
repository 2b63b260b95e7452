// The `posthorn` program: hands its arguments to the command line, and its answer to the shell.
#include "app/cli/command_line.hpp"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <unistd.h>

namespace {

std::terminate_handler usual_end = nullptr;

using posthorn::cli::exit_status;

// Needs no memory.
void say_out_of_memory()
{
    constexpr std::string_view words =
        "posthorn: out of memory: raise the limit (ulimit -v), or handle fewer messages at once\n";
    // Where that cannot be said, nothing can.
    if (::write(STDERR_FILENO, words.data(), words.size()) < 0)
        return;
}

// A thread that finds no memory where nothing can be undone ends the process, as a crash would:
// what it held comes back when its lease is over. It is told, and is no abort.
[[noreturn]] void end_without_memory()
{
    try {
        if (const auto why = std::current_exception())
            std::rethrow_exception(why);
    } catch (const std::bad_alloc&) {
        say_out_of_memory();
        ::_exit(static_cast<int>(exit_status::failure));
    } catch (...) { // a mistake of ours, which a core dump helps to find
        usual_end();
    }
    usual_end();
    std::abort();
}

} // namespace

int main(int argc, char** argv)
{
    usual_end = std::set_terminate(end_without_memory);
    // Whoever reads our output may stop early (`posthorn messages … | head`): that is no accident.
    std::signal(SIGPIPE, SIG_IGN);
    try {
        return static_cast<int>(posthorn::cli::run(argc, argv));
    } catch (const std::bad_alloc&) {
        say_out_of_memory();
        return static_cast<int>(exit_status::failure);
    }
}
