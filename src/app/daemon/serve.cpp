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
#include <optional>
#include <thread>
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

// After so long the next generation begins with the stores that it knows by then.
constexpr duration patience_for_stores = 2s;
constexpr duration reopen_every = 1s;

// A reading of the file that is about to take over.
struct succession {
    std::shared_ptr<generation> next;
    monotonic_time until;        ///< it waits for its stores no longer
    bool has_stores = false;     ///< and now waits until the old endpoints are closed
    bool moves_listener = false; ///< to the next one, which may be none
    std::unique_ptr<http_listener> listener = {};
};

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
    [[nodiscard]] std::unique_ptr<http_listener> listener_at(const listen_address& where);
    [[nodiscard]] bool moves_listener(const configuration& next) const;
    void install(std::unique_ptr<http_listener> next);

    void reload();
    void go_on();
    void prepare_take_over();
    void take_over();
    void refuse(const bad_configuration& wrong);
    void refuse(std::string_view why);
    void reopen_endpoints();

    void on_signal(int which);
    void end(generation& which) const;
    void forget_ended();
    void tell(cli::output& to, std::string_view ending);
    [[nodiscard]] bool over();
    [[nodiscard]] daemon_view view();
    [[nodiscard]] http_answer answer(std::string_view path);
    [[nodiscard]] http_answer readiness();

    const environment world_ = environment::system();
    const std::string file_;
    const service_manager manager_;
    surroundings around_;
    std::mutex mutex_;                    ///< of the generations, which others may look at
    std::shared_ptr<generation> current_; // shared with a request that looks at it
    std::vector<std::shared_ptr<generation>> retired_;
    std::optional<succession> succession_;
    bool reads_again_ = false;                      ///< told to while it was in the middle of it
    std::optional<monotonic_time> reopens_at_ = {}; ///< the endpoints of the current one
    run_report so_far_;                             ///< of generations that are gone
    std::unique_ptr<http_listener> listener_;
    std::optional<listen_address> asked_to_listen_; ///< for its port may be any
    std::jthread closer_;                           ///< of the listener before
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
    if (what.daemon.listen)
        install(listener_at(*what.daemon.listen));
    asked_to_listen_ = what.daemon.listen;
    auto first = std::make_shared<generation>(std::move(what), around_);
    const std::lock_guard lock(mutex_); // somebody may be asking already
    current_ = std::move(first);
}

std::unique_ptr<http_listener> service::listener_at(const listen_address& where)
{
    return std::make_unique<http_listener>(
        where, [this](std::string_view path) { return answer(path); },
        [log = around_.log](log_level level, std::string_view line) { log->write(level, line); });
}

// By what it was told or by what it has got: both are the same place.
bool service::moves_listener(const configuration& next) const
{
    const auto& wanted = next.daemon.listen;
    return wanted != asked_to_listen_ &&
           !(wanted && listener_ && to_string(*wanted) == to_string(listener_->address()));
}

// Whoever is asking the one before is answered on a thread of its own.
void service::install(std::unique_ptr<http_listener> next)
{
    if (next)
        around_.log->write(log_level::info, "listening",
                           {{"at", fmt::format("http://{}", to_string(next->address()))}});
    if (auto before = std::exchange(listener_, std::move(next)))
        closer_ = std::jthread([old = std::move(before)]() mutable { old.reset(); });
}

cli::exit_status service::run(cli::output& to)
{
    const auto signals = our_signals();
    current_->open_endpoints();
    current_->start();
    around_.log->write(log_level::info, "ready", {{"file", file_}, {"process", ::getpid()}});
    manager_.ready("serving");
    auto told_at = world_.clock->monotonic();
    while (!over()) {
        const timespec slice{.tv_sec = 0, .tv_nsec = 50'000'000};
        if (const int which = sigtimedwait(&signals, nullptr, &slice); which > 0)
            on_signal(which);
        go_on();
        forget_ended();
        const auto now = world_.clock->monotonic();
        if (manager_.watchdog_every() && now - told_at >= *manager_.watchdog_every()) {
            manager_.alive();
            told_at = now;
        }
    }
    if (!hurried_) // it may wait for somebody who is asking
        listener_.reset();
    so_far_ += current_->report();
    const std::string_view ending = !failure_.empty() ? "failed"
                                    : hurried_        ? "stopped_now"
                                                      : "stopped";
    tell(to, ending);
    return ending == "stopped" ? cli::exit_status::success : cli::exit_status::failure;
}

void service::tell(cli::output& to, std::string_view ending)
{
    const auto& total = so_far_;
    around_.log->write(failure_.empty() ? log_level::info : log_level::error, "ended",
                       {{"how", std::string(ending)},
                        {"done", total.done},
                        {"retrying", total.retrying},
                        {"dead", total.dead},
                        {"released", total.released},
                        {"lost", total.lost},
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
    // Nothing before this may wait for anybody: from here on nothing new begins.
    for (const auto& each : retired_)
        end(*each);
    end(*current_);
    current_->close_endpoints();
    succession_.reset(); // it has begun nothing
}

void service::end(generation& which) const
{
    which.drain();
    if (hurried_)
        which.stop_now();
}

// ------------------------------------------------------------------------------------ reloading

// Nothing of the old is touched before all of the new can begin: it is read, opened, and finds its
// stores beside the old one, which works on meanwhile. Databases may take their time for that, so
// it happens in steps of the main loop.
void service::reload()
{
    reads_again_ = succession_.has_value(); // one after the other
    if (reads_again_)
        return;
    manager_.reloading(world_.clock->monotonic());
    try {
        auto next = read_configuration(file_);
        around_.log->hide(next.secrets);
        for (const auto& each : next.warnings)
            around_.log->write(log_level::warning, in_words(file_, each));
        succession_.emplace(
            succession{.next = std::make_shared<generation>(next, around_, current_.get()),
                       .until = world_.clock->monotonic() + patience_for_stores});
    } catch (const bad_configuration& wrong) {
        refuse(wrong);
    } catch (const std::exception& failure) {
        refuse(failure.what());
    }
}

void service::go_on()
{
    if (draining_)
        return;
    if (reopens_at_ && world_.clock->monotonic() >= *reopens_at_)
        reopen_endpoints();
    if (!succession_)
        return;
    try {
        if (!succession_->has_stores)
            prepare_take_over();
        if (succession_->has_stores && current_->endpoints_closed())
            take_over();
    } catch (const bad_configuration& wrong) {
        refuse(wrong);
    } catch (const std::exception& failure) {
        refuse(failure.what());
    }
    if (!succession_ && reads_again_)
        reload();
}

// Senders find nobody for a moment, and come again: two cannot listen at the same address.
void service::prepare_take_over()
{
    auto& next = *succession_->next;
    if (!next.look_for_stores() && world_.clock->monotonic() < succession_->until)
        return;
    if (const auto missing = next.stores_not_found(); !missing.empty())
        throw error(error_code::unavailable,
                    fmt::format("cannot look for stores: {}", fmt::join(missing, "; ")));
    succession_->moves_listener = moves_listener(next.what());
    if (succession_->moves_listener && next.what().daemon.listen)
        succession_->listener = listener_at(*next.what().daemon.listen);
    current_->close_endpoints();
    succession_->has_stores = true;
}

void service::take_over()
{
    const auto next = succession_->next;
    next->open_endpoints();
    around_.log->follow(next->what());
    next->start();
    {
        const std::lock_guard lock(mutex_);
        retired_.push_back(std::exchange(current_, next));
    }
    retired_.back()->drain();
    if (succession_->moves_listener)
        install(std::move(succession_->listener));
    asked_to_listen_ = next->what().daemon.listen;
    reopens_at_.reset();
    succession_.reset();
    ++around_.numbers->reloads;
    around_.log->write(log_level::info, "the configuration was read again", {{"file", file_}});
    manager_.ready("serving");
}

void service::refuse(const bad_configuration& wrong)
{
    for (const auto& each : wrong.problems)
        around_.log->write(log_level::error, in_words(wrong.file, each));
    refuse(std::string_view{});
}

void service::refuse(std::string_view why)
{
    const bool closed_endpoints = succession_ && succession_->has_stores;
    succession_.reset();
    if (closed_endpoints)
        reopen_endpoints();
    ++around_.numbers->reloads_failed;
    if (why.empty())
        around_.log->write(log_level::error, "the configuration stays as it was");
    else
        around_.log->write(log_level::error, "the configuration stays as it was",
                           {{"error", std::string(why)}});
    manager_.ready("serving");
}

// Somebody else may have the address by now; perhaps not for long.
void service::reopen_endpoints()
{
    try {
        current_->open_endpoints();
        reopens_at_.reset();
    } catch (const std::exception& failure) {
        if (!std::exchange(reopens_at_, world_.clock->monotonic() + reopen_every))
            around_.log->write(log_level::error, "cannot listen for webhooks, will try again",
                               {{"error", failure.what()}});
    } catch (const bad_configuration&) { // it was good before
        reopens_at_ = world_.clock->monotonic() + reopen_every;
    }
}

void service::forget_ended()
{
    if (hurried_)
        return; // their ends may take a moment
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
    result.log_lines = around_.log->lines();
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
    auto daemon = std::make_unique<service>(std::move(what));
    const auto status = daemon->run(to);
    const bool hurried = daemon->hurried();
    if (!hurried) // whoever says it twice does not want to wait for anybody
        daemon.reset();
    if (!to.finish() && !hurried)
        return status; // the caller tells that something was lost
    // Threads that a database holds up are left to themselves. They must not find that libraries
    // which they use have been taken down under their feet, as a usual exit does.
    std::_Exit(static_cast<int>(status));
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
