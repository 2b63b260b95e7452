// The `posthorn` program: hands its arguments to the command line, and its answer to the shell.
#include "app/cli/command_line.hpp"

#include <csignal>

int main(int argc, char** argv)
{
    // Whoever reads our output may stop early (`posthorn messages … | head`): that is no accident.
    std::signal(SIGPIPE, SIG_IGN);
    return static_cast<int>(posthorn::cli::run(argc, argv));
}
