// Where the servers are.
#include "conformance/server_under_test.hpp"

#include <posthorn/environment.hpp>

#include <cstdlib>
#include <stdexcept>

namespace posthorn::conformance {

std::string server_url(const char* variable)
{
    const char* url = std::getenv(variable);
    if (url == nullptr || *url == '\0')
        throw std::runtime_error(std::string(variable) +
                                 " is not set: run ./dev servers, and then this test with the "
                                 "variables that it prints");
    return url;
}

std::string unused_name()
{
    return "test_" + std::to_string(environment::system().random->bits());
}

} // namespace posthorn::conformance
