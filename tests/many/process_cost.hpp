// What this process has used and holds, as the kernel counts it.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace posthorn::test {

inline std::chrono::microseconds processor_time()
{
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto of = [](const timeval& part) {
        return std::chrono::seconds{part.tv_sec} + std::chrono::microseconds{part.tv_usec};
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

inline std::size_t open_descriptors()
{
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

inline double resident_mib()
{
    std::ifstream file("/proc/self/statm");
    std::size_t size = 0;
    std::size_t resident = 0;
    file >> size >> resident;
    return static_cast<double>(resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) /
           (1 << 20);
}

} // namespace posthorn::test
