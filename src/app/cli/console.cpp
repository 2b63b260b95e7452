// Lines and a status, under one lock, so that neither is drawn into the other.
#include "app/cli/console.hpp"

#include "app/cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

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
    put(text);
}

void console::pass(std::string_view text)
{
    const std::lock_guard lock(mutex_);
    wipe();
    put(text);
}

// The cursor rests below the status, at the start of a line: what others write begins there.
void console::show(std::string_view status)
{
    if (!live_)
        return;
    const std::lock_guard lock(mutex_);
    wipe();
    put(fmt::format("{}\n", status));
    rows_ = static_cast<std::size_t>(std::ranges::count(status, '\n')) + 1;
}

void console::wipe()
{
    if (rows_ > 0)
        put(fmt::format("\x1b[{}A\r\x1b[J", rows_));
    rows_ = 0;
}

// What cannot be said on standard error cannot be said anywhere.
void console::put(std::string_view text)
{
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

} // namespace posthorn::cli
