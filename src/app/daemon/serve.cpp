// The daemon's main loop: signals come in, generations of the configuration come and go, and
// whoever asks is told how things are.
#include "app/daemon/serve.hpp"

#include "app/cli/command_handler.hpp"
#include "app/cli/text.hpp"
#include "app/daemon/generation.hpp"
#include "app/daemon/http_listener.hpp"
#include "app/daemon/journal.hpp"
#include "app/daemon/metrics.hpp"
#include "app/daemon/notify.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <utility>
#include <vector>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

constexpr std::size_t failures_shown = 20;

sigset_t our_signals()
{
    sigset_t set;
    sigemptyset(&set);
    for (const int each : {SIGTERM, SIGINT, SIGHUP})
        sigaddset(&set, each);
    return set;
}

// Senders find nobody for a moment, and come again. If the new one cannot listen, the old one goes
// on.
void take_endpoints_over(generation& from, generation& to)
{
    from.close_endpoints();
    try {
        to.open_endpoints();
    } catch (...) {
        from.open_endpoints();
        throw;
    }
}

class service {
public:
    explicit service(configuration what);
    service(const service&) = delete;
    service& operator=(const service&) = delete;
    ~service() = default;

    [[nodiscard]] cli::exit_status run(cli::output& to);

    /// Whether it was told to end at once.
    [[nodiscard]] bool hurried() const { return hurried_; }

private:
    void listen(const configuration& how);
    void reload();
    void on_signal(int which);
    void forget_ended();
    [[nodiscard]] bool over();
    [[nodiscard]] daemon_view view();
    [[nodiscard]] http_answer answer(std::string_view path);
    [[nodiscard]] http_answer readiness();

    const environment world_ = environment::system();
    const std::string file_;
    const service_manager manager_;
    surroundings around_;
    std::mutex mutex_;                    ///< of the generations, for those who look
    std::shared_ptr<generation> current_; // shared with a request that looks at it
    std::vector<std::shared_ptr<generation>> retired_;
    run_report so_far_; ///< of generations that are gone
    std::unique_ptr<http_listener> listener_;
    std::atomic<bool> draining_ = false;
    bool hurried_ = false;
    std::string failure_;
};

service::service(configuration what) : file_(what.file)
{
    around_.log = std::make_shared<journal>(what);
    around_.numbers = std::make_shared<metrics>(what.metrics, world_);
    for (const auto& each : what.warnings)
        around_.log->write(log_level::warning, in_words(file_, each));
    listen(what);
    current_ = std::make_shared<generation>(std::move(what), around_);
}

void service::listen(const configuration& how)
{
    if (!how.daemon.listen) {
        listener_.reset();
        return;
    }
    auto next = std::make_unique<http_listener>(
        *how.daemon.listen, [this](std::string_view path) { return answer(path); });
    listener_ = std::move(next);
    around_.log->write(log_level::info, "listening",
                       {{"at", fmt::format("http://{}", to_string(listener_->address()))}});
}

cli::exit_status service::run(cli::output& to)
{
    const auto signals = our_signals();
    current_->open_endpoints();
    current_->start();
    around_.log->write(log_level::info, "ready",
                       {{"file", file_}, {"process", fmt::format("{}", ::getpid())}});
    manager_.ready("serving");
    auto told_at = world_.clock->monotonic();
    while (!over()) {
        const timespec slice{.tv_sec = 0, .tv_nsec = 50'000'000};
        if (const int which = sigtimedwait(&signals, nullptr, &slice); which > 0)
            on_signal(which);
        forget_ended();
        const auto now = world_.clock->monotonic();
        if (manager_.watchdog_every() && now - told_at >= *manager_.watchdog_every()) {
            manager_.alive();
            told_at = now;
        }
    }
    listener_.reset();
    so_far_ += current_->report();
    const std::string_view ending = !failure_.empty() ? "failed"
                                    : hurried_        ? "stopped_now"
                                                      : "stopped";
    const auto& total = so_far_;
    around_.log->write(failure_.empty() ? log_level::info : log_level::error, "ended",
                       {{"how", std::string(ending)},
                        {"done", fmt::format("{}", total.done)},
                        {"retrying", fmt::format("{}", total.retrying)},
                        {"dead", fmt::format("{}", total.dead)},
                        {"released", fmt::format("{}", total.released)},
                        {"lost", fmt::format("{}", total.lost)},
                        {"error", failure_}});
    if (to.json())
        to.document({{"ended", ending},
                     {"done", total.done},
                     {"retrying", total.retrying},
                     {"dead", total.dead},
                     {"released", total.released},
                     {"parked", total.parked},
                     {"lost", total.lost},
                     {"left_running", total.left_running}});
    return ending == "stopped" ? cli::exit_status::success : cli::exit_status::failure;
}

bool service::over()
{
    if (hurried_ ? !current_->worked() : !current_->ended())
        return false;
    failure_ = current_->failure();
    return std::ranges::all_of(
        retired_, [&](const auto& each) { return hurried_ ? each->worked() : each->ended(); });
}

void service::on_signal(int which)
{
    if (which == SIGHUP)
        return draining_ ? void() : reload();
    if (!draining_) {
        draining_ = true;
        around_.log->write(log_level::info, "ending what is in hand; once more to end now");
        manager_.stopping();
    } else if (!hurried_) {
        hurried_ = true;
        around_.log->write(log_level::warning, "ending now");
    }
    retired_.push_back(current_);
    current_->close_endpoints(); // what has begun is stored first
    for (const auto& each : retired_) {
        each->drain();
        if (hurried_)
            each->stop_now();
    }
    retired_.pop_back();
}

// Nothing of the old is touched before all of the new can begin.
void service::reload()
{
    manager_.reloading(world_.clock->monotonic());
    try {
        auto next = read_configuration(file_);
        around_.log->hide(next.secrets);
        for (const auto& each : next.warnings)
            around_.log->write(log_level::warning, in_words(file_, each));
        const bool moves = next.daemon.listen != current_->what().daemon.listen;
        const auto made = std::make_shared<generation>(next, around_);
        if (moves)
            listen(next);
        take_endpoints_over(*current_, *made);
        around_.log->follow(next);
        made->start();
        {
            const std::lock_guard lock(mutex_);
            retired_.push_back(std::exchange(current_, made));
        }
        retired_.back()->drain();
        ++around_.numbers->reloads;
        around_.log->write(log_level::info, "the configuration was read again", {{"file", file_}});
    } catch (const bad_configuration& wrong) {
        ++around_.numbers->reloads_failed;
        for (const auto& each : wrong.problems)
            around_.log->write(log_level::error, in_words(wrong.file, each));
        around_.log->write(log_level::error, "the configuration stays as it was");
    } catch (const std::exception& failure) {
        ++around_.numbers->reloads_failed;
        around_.log->write(log_level::error, "the configuration stays as it was",
                           {{"error", failure.what()}});
    }
    manager_.ready("serving");
}

void service::forget_ended()
{
    std::vector<std::shared_ptr<generation>> gone;
    {
        const std::lock_guard lock(mutex_);
        const auto [first, last] =
            std::ranges::partition(retired_, [](const auto& each) { return !each->ended(); });
        gone.assign(first, last);
        retired_.erase(first, last);
    }
    for (const auto& each : gone)
        so_far_ += each->report();
}

daemon_view service::view()
{
    const std::lock_guard lock(mutex_);
    daemon_view result{.draining = draining_};
    if (!current_)
        return result;
    result.running = current_->status().running;
    for (const auto& each : retired_)
        result.running += each->status().running;
    result.stores = current_->stores();
    return result;
}

http_answer service::answer(std::string_view path)
{
    try {
        if (path == "/metrics")
            return {.type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = around_.numbers->exposition(view(), [this](std::string label) {
                        return around_.log->without_secrets(std::move(label));
                    })};
        if (path == "/healthz")
            return {.body = "ok\n"};
        if (path == "/readyz")
            return readiness();
        return {.status = 404, .body = "there are /metrics, /healthz and /readyz\n"};
    } catch (const std::exception& failure) {
        return {.status = 500, .body = around_.log->without_secrets(failure.what()) + "\n"};
    }
}

// Of many stores, some may be away: it is not ready when none of them answers.
http_answer service::readiness()
{
    const auto now = view();
    auto failures = ordered_json::array();
    std::size_t failing = 0;
    for (const auto& each : now.stores) {
        if (each.state != store_state::failing && each.state != store_state::hanging)
            continue;
        if (++failing <= failures_shown)
            failures.push_back({{"store", around_.log->without_secrets(each.name)},
                                {"state", to_string(each.state)},
                                {"error", around_.log->without_secrets(each.last_error)}});
    }
    const bool ready = !now.draining && !now.stores.empty() && failing < now.stores.size();
    const ordered_json document{{"ready", ready},
                                {"draining", now.draining},
                                {"stores", now.stores.size()},
                                {"failing", failing},
                                {"failures", std::move(failures)}};
    return {.status = ready ? 200 : 503,
            .type = "application/json",
            .body = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n"};
}

} // namespace

cli::exit_status run_daemon(configuration what, cli::output& to)
{
    cli::prepare_for_children();
    // Blocked before there are threads, so that all of them leave signals to the main loop.
    const auto signals = our_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    const auto daemon = std::make_unique<service>(std::move(what));
    const auto status = daemon->run(to);
    if (daemon->hurried()) {
        // Whoever says it twice does not want to wait for a thread that a database holds up.
        static_cast<void>(to.finish());
        std::_Exit(static_cast<int>(status));
    }
    return status;
}

} // namespace posthorn::daemon

namespace posthorn::cli {

exit_status serve(const serve_request& what, output& to)
{
    try {
        auto configuration = daemon::read_configuration(what.config);
        if (what.check || what.connect)
            return daemon::show_check(configuration, what.connect, to);
        return daemon::run_daemon(std::move(configuration), to);
    } catch (const daemon::bad_configuration& wrong) {
        daemon::tell_problems(wrong, to);
        return exit_status::usage;
    }
}

} // namespace posthorn::cli
