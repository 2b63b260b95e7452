// A bar on one line of standard error, redrawn whenever it gains a percent and wiped at the end.
#include "app/cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

namespace posthorn::cli {
namespace {

constexpr std::size_t worth_showing_from = 2'000;
constexpr int bar_columns = 30;
constexpr auto look_every = std::chrono::milliseconds{200};

} // namespace

progress_bar::progress_bar(std::string label, std::size_t total, const output& to)
    : label_(std::move(label)), total_(total), visible_(to.watched() && total >= worth_showing_from)
{}

progress_bar::~progress_bar()
{
    if (percent_ >= 0)
        std::fputs("\r\x1b[K", stderr);
}

void progress_bar::show(std::size_t done)
{
    const int percent =
        visible_ ? static_cast<int>(std::min(done, total_) * 100 / total_) : percent_;
    if (percent == percent_)
        return;
    percent_ = percent;
    const int full = percent * bar_columns / 100;
    std::string bar;
    for (int i = 0; i < bar_columns; ++i)
        bar += i < full ? "█" : "░";
    std::fputs(fmt::format("\r{} {} {:3}%  {} of {}", label_, bar, percent, done, total_).c_str(),
               stderr);
}

progress_watch::progress_watch(std::string label, std::size_t total, const output& to,
                               std::function<std::size_t()> done)
    : bar_(std::move(label), total, to)
{
    if (to.watched())
        thread_ = std::jthread(
            [this, done = std::move(done)](const std::stop_token& stop) { watch(stop, done); });
}

void progress_watch::watch(const std::stop_token& stop, const std::function<std::size_t()>& done)
{
    std::unique_lock lock(mutex_);
    try {
        while (!wake_.wait_for(lock, stop, look_every, [&] { return stop.stop_requested(); }))
            bar_.show(done());
    } catch (const std::exception&) {
        return; // the work itself meets the same failure, and reports it
    }
}

} // namespace posthorn::cli
