// The program `posthorn-checker` as a function, so that tests can call it.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace posthorn::checker {

/// `arguments` without the program's name.
/// Returns: 0 nothing is wrong, 1 promises were broken, 2 there was nothing that could be judged.
int run_checker(std::vector<std::string> arguments, std::ostream& out, std::ostream& err);

} // namespace posthorn::checker
