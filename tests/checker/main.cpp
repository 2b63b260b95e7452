// The program: everything it does is in command.cpp.
#include "checker/command.hpp"

#include <iostream>

int main(int argc, char** argv)
{
    return posthorn::checker::run_checker({argv + 1, argv + argc}, std::cout, std::cerr);
}
