// The code of docs/guides/logging.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ph = posthorn;
using namespace std::chrono_literals;

namespace {

void expect(bool condition)
{
    if (!condition)
        throw std::runtime_error("the guide to logging is wrong");
}

// What an application has already.
struct {
    std::mutex mutex;
    std::vector<std::string> lines;

    void write(ph::log_level, std::string_view line)
    {
        const std::lock_guard lock(mutex);
        lines.emplace_back(line);
    }
} app_log;

ph::environment with_threshold()
{
    auto world = ph::environment::system(ph::log_level::info); // warning, unless you say otherwise
    return world;
}

ph::environment in_silence()
{
    auto world = ph::environment::system(std::nullopt);
    return world;
}

ph::store into_my_own_log(const std::string& url)
{
    auto world = ph::environment::system();
    const auto write = [](ph::log_level level, std::string_view line) {
        app_log.write(level, line);
    };
    world.log = ph::log_sink(write, ph::log_level::info);
    auto store = ph::open(url, {.environment = world});
    return store;
}

ph::worker told_by_hooks(ph::store store)
{
    ph::worker worker(std::move(store),
                      {.on = {.settled =
                                  [](const ph::delivery_view& d, ph::settled_as answer) {
                                      if (answer == ph::settled_as::dead)
                                          app_log.write(ph::log_level::error,
                                                        to_string(d.id()) + " is dead");
                                  }},
                       .log_activity = false});
    return worker;
}

std::size_t lines_with(std::string_view part)
{
    std::size_t count = 0;
    for (const auto& each : app_log.lines)
        count += each.find(part) != std::string::npos ? 1 : 0;
    return count;
}

} // namespace

int main()
{
    expect(with_threshold().log.takes(ph::log_level::info));
    expect(!in_silence().log.takes(ph::log_level::error));

    auto store = into_my_own_log("sqlite::memory:");
    ph::enqueue(store, {"mail.welcome", "ada"});
    ph::worker worker(store, {.name = "mailer"});
    worker.handle("mail.*",
                  [](const ph::delivery_view&) { throw std::runtime_error("no mail server"); });
    worker.process_outbox();
    expect(lines_with("failed and is tried again later: no mail server") == 1);
    expect(lines_with("ada") == 0);

    ph::enqueue(store, {"orders.placed", "7"});
    auto quiet = told_by_hooks(store);
    quiet.handle("orders.*", [](const ph::delivery_view&) { return ph::fail("sold out"); });
    quiet.process_outbox();
    expect(lines_with("is dead") == 1);
    return EXIT_SUCCESS;
}
