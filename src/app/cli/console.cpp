// Lines and a status, under one lock, so that neither is drawn into the other.
#include "app/cli/console.hpp"

#include "app/cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace posthorn::cli {

console::~console()
{
    clear();
}

void console::clear()
{
    const std::lock_guard lock(mutex_);
    wipe();
}

void console::log(std::string_view line)
{
    if (quiet_)
        return;
    const auto text = fmt::format("{}  {}\n", iso_time(world_.clock->now()).substr(11, 12), line);
    const std::lock_guard lock(mutex_);
    wipe();
    begin_line();
    put(text);
}

void console::pass(std::string_view text, std::FILE* to)
{
    if (text.empty())
        return;
    const std::lock_guard lock(mutex_);
    wipe();
    put(text, to);
    line_is_open_ = !text.ends_with('\n');
}

// The cursor rests below the status, at the start of a line. A line that does not fit would become
// two, of which only one would be wiped.
void console::show(std::string_view status)
{
    if (!live_)
        return;
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    const std::size_t columns = known ? size.ws_col - 1U : 79U;
    std::string fitting;
    std::size_t rows = 0;
    for (std::size_t begin = 0; begin <= status.size(); ++rows) {
        const auto end = std::min(status.find('\n', begin), status.size());
        fitting += shortened(status.substr(begin, end - begin), columns) + "\n";
        begin = end + 1;
    }
    const std::lock_guard lock(mutex_);
    wipe();
    begin_line();
    put(fitting);
    rows_ = rows;
}

void console::begin_line()
{
    if (std::exchange(line_is_open_, false))
        put("\n");
}

void console::wipe()
{
    if (rows_ > 0)
        put(fmt::format("\x1b[{}A\r\x1b[J", rows_));
    rows_ = 0;
}

// What cannot be said on standard error cannot be said anywhere.
void console::put(std::string_view text, std::FILE* to)
{
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), to));
    static_cast<void>(std::fflush(to));
}

} // namespace posthorn::cli
